"""A cost model of AMD kernels: what a code object's instructions take on a chip. See docs/amd-cost-model.md."""
