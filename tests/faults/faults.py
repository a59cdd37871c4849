"""Faults that are put into copies of kernels, to see that the checks find them."""
import dataclasses

ATTENTION, EXPERTS, MATMUL = (f"src/kernels/{room}" for room in ("attention", "experts", "matmul"))
OPERATIONS = {ATTENTION: "attention", EXPERTS: "expert_matmul", MATMUL: "matmul"}


@dataclasses.dataclass(frozen=True)
class Fault:
    kind: str
    changes: tuple  # (file, what stands there once, what comes in its place)
    object: str  # the code object with the fault
    kernel: str  # of these names, separated by |, one is to be named
    filters: str  # cases of the conformance suite that should find it
    protocol: str = ""  # the test of tests/protocols that should
    shaken: bool = False  # a race: the kernels wait for pseudo-random times, or the emulator runs them in a drawn order

    @property
    def operation(self):
        """Of its kernels. What kernels share has its fault looked for in attention."""
        folder = self.changes[0][0]
        return next((name for room, name in OPERATIONS.items() if folder.startswith(room)), "attention")


PREFILL_FILTERS = "*AttentionOfModels*/llama3_8b_BF16:*AttentionOfModels*/gemma3_12b_F16"
SMALL_FILTERS = "Tiny/AttentionConformance.*:Shapes/AttentionConformance.*"  # of races, which several seeds look for
DECODE_FILTERS = "*AttentionOfModels*/llama3_8b_F16:*AttentionOfModels*/llama3_8b_Q8_0"

NVIDIA_FAULTS = [
    Fault("a slot less", ((f"{ATTENTION}/hopper/attention_prefill_pipeline.h", "return q_stages + 3;", "return q_stages + 2;"),),
          "attention_prefill", "hopper_prefill", PREFILL_FILTERS, protocol="prefill", shaken=True),
    # V is free before the product that reads it has ended. (The product that reads K has, wherever its arrival stands.)
    Fault("an arrival moved", ((f"{ATTENTION}/hopper/attention_prefill.cu", """    wgmma_wait<1>();
    keep(scores);
""", """    free_v();
    wgmma_wait<1>();
    keep(scores);
"""), (f"{ATTENTION}/hopper/attention_prefill.cu", """    keep(out);
    free_v();
    if (first) {""", """    keep(out);
    if (first) {""")), "attention_prefill", "hopper_prefill", PREFILL_FILTERS, shaken=True),
    Fault("a fence taken out", ((f"{ATTENTION}/hopper/attention_decode_multiply.h", """    __threadfence();
    named_barrier<1, C::consumer_threads>();
    if (thread == 0) {
      shared.last""", """    if (thread == 0) {
      shared.last"""),), "attention_decode", "hopper_decode", SMALL_FILTERS, shaken=True),
    Fault("a counter not reset", ((f"{ATTENTION}/hopper/attention_decode_multiply.h", "        *counter = 0;\n", ""),),
          "attention_decode", "hopper_decode", DECODE_FILTERS),
    Fault("an accumulator not cleared", ((f"{MATMUL}/hopper/matmul_tiles.h", """    for (int i = 0; i < C::sums; ++i) {
      sums[i] = 0.0f;""", """    for (int i = 1; i < C::sums; ++i) {
      sums[i] = 0.0f;"""),), "matmul_tiles_q4_k", "hopper", "*MatmulOfModels*/Q4_K"),
    Fault("a tail row skipped", ((f"{MATMUL}/hopper/matvec_common.h", "row < part.n &&", "row + 1 < part.n &&"),),
          "matvec_half", "hopper_dense", "*MatmulOfModels*/F16"),
    Fault("a wrong stage", ((f"{ATTENTION}/hopper/attention_prefill.cu", "operand(shared().v[stage_of<stages>(tiles - 1)]",
                             "operand(shared().v[stage_of<stages>(tiles)]"),), "attention_prefill", "hopper_prefill", PREFILL_FILTERS),
    # Activations are read while the kernel that converts them may still run.
    Fault("an early read before the wait", ((f"{MATMUL}/hopper/matmul_tiles.h", """produce_boxes(const typename C::Args& call, TilesShared<C>& shared) {
  gpu::wait_for_predecessor();
""", """produce_boxes(const typename C::Args& call, TilesShared<C>& shared) {
"""),),
          "matmul_tiles_q4_k", "hopper", "*MatmulOfModels*/Q4_K", shaken=True),
    Fault("one expert's slot lost", ((f"{EXPERTS}/hopper/experts_sort.h", """slot < args.slots; slot += few_convert_threads) {
    args.order""", """slot < args.slots - 1; slot += few_convert_threads) {
    args.order"""),), "experts_few", "hopper", "*ExpertMatmul*:*ExpertsOfModels*"),
    Fault("a block table off by one", ((f"{ATTENTION}/hopper/attention_decode_copy.h", "table[box >> (args.block_shift - box_shift)]",
                                        "table[(box + 1) >> (args.block_shift - box_shift)]"),),
          "attention_decode", "hopper_decode", DECODE_FILTERS),
]

AMD_DECODE = "Tiny/AttentionConformance.EqualsTheReference/decode_over_several_parts"
AMD_DENSE = "Formats/MatmulConformanceTiny.EqualsTheReference/F16"

AMD_FAULTS = [
    # Protocols of slots are Hopper's; the test that walks them needs no GPU.
    dataclasses.replace(NVIDIA_FAULTS[0], object="", filters=""),
    # The parts of the work-group are stored behind its arrival.
    Fault("an arrival moved", ((f"{ATTENTION}/amd/attention_decode.h", """  const PieceSums pieces = piece_sums<Shape>(all.call, item);
""", """  const PieceSums pieces = piece_sums<Shape>(all.call, item);
  const bool arrived_last = gpu::last_to_arrive(all.call.counters + item, place.pieces());
"""), (f"{ATTENTION}/amd/attention_decode.h", "if (!gpu::last_to_arrive(all.call.counters + item, count)) {", "if (!arrived_last) {")),
          "attention_decode", "amd_decode", AMD_DECODE, shaken=True),
    Fault("a fence taken out", (("src/kernels/tile/arrival.h", """  sync_stores();
  if (thread_index() == 0) {""", """  if (thread_index() == 0) {"""),), "attention_decode", "amd_decode", AMD_DECODE, shaken=True),
    Fault("a counter not reset", (("src/kernels/tile/arrival.h", """    *counter = 0;
    __builtin_amdgcn_fence""", """    __builtin_amdgcn_fence"""),), "attention_decode", "amd_decode",
          f"{AMD_DECODE}:Tiny/AttentionAppend.EqualsTwoCalls/pieces"),
    Fault("an accumulator not cleared", ((f"{MATMUL}/amd/matvec_dense.h", """chunk.shared.partials) / 4; at += matvec_threads) {
    sums[at] = 0.0f;""", """chunk.shared.partials) / 8; at += matvec_threads) {
    sums[at] = 0.0f;"""),), "matvec_dense", "amd_dense", AMD_DENSE),
    Fault("a tail row skipped", ((f"{MATMUL}/amd/matvec_packed.h", "const bool used = row < part.n;", "const bool used = row + 1 < part.n;"),),
          "matvec_dense", "amd_dense", AMD_DENSE),
    Fault("a wrong stage", ((f"{MATMUL}/amd/matmul_packed.h", "advance(step + 1, odd, even);", "advance(step + 1, even, odd);"),),
          "matmul_packed", "amd", "Formats/MatmulConformanceTiny.EqualsTheReference/Q8_0"),
    # The sums of other waves are read before they are stored.
    Fault("an early read before the wait", ((f"{ATTENTION}/amd/attention_decode.h", """  sync_shared();

  const auto sum_of_waves""", """  const auto sum_of_waves"""),), "attention_decode", "amd_decode", AMD_DECODE),
    Fault("one expert's slot lost", ((f"{EXPERTS}/portable/experts.hip", """slot < args.slots; slot += gpu::sort_threads) {
    args.order""", """slot < args.slots - 1; slot += gpu::sort_threads) {
    args.order"""),), "experts", "gpu|amd", "Formats/ExpertMatmulTiny.ManyTokens/F16"),
    Fault("a block table off by one", ((f"{ATTENTION}/amd/attention_decode_keys.h", "read_constant(table, any >> args.kv.block_shift)",
                                        "read_constant(table, (any + 1) >> args.kv.block_shift)"),), "attention_decode", "amd_decode", AMD_DECODE),
]
