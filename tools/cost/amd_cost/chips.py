"""Chips: what a kernel's time depends on beside its instructions.

Peaks, sizes and clocks are the vendor's. `memory_share` is the share of the vendor's DRAM rate that long reads reach, latencies and cache
rates are those that micro-benchmarks of others found, rounded; none was measured by this project. Cycles are of the shader clock.
"""
import dataclasses


@dataclasses.dataclass(frozen=True)
class Chip:
    name: str
    architecture: str
    units: int  # CUs
    clock_ghz: float
    memory_gbs: float
    memory_share: float
    l2_gbs: float
    l2_bytes: int
    big_cache_bytes: int  # behind L2, before DRAM
    l1_bytes: int  # of a CU
    l1_cycles: int  # latency of a hit
    l2_cycles: int
    memory_cycles: int
    matrix_f16: float  # TFLOP/s
    launch_us: float  # from the end of a kernel to the start of the next in one stream
    l2s: int = 1  # second caches that each serve a part of the units; l2_bytes is one's size, l2_gbs the rate of all
    big_gbs: float = 0.0  # of the cache behind them, which serves what another one has read already
    big_cycles: int = 0
    walk_cycles: int = 0  # a fence of the device writes a second cache back: it walks through its lines

    @property
    def groups(self):
        """Work-groups that kernels of one long-lived group a unit launch: HIP counts WGPs on RDNA."""
        return self.units // TIMINGS[self.architecture].units

    @property
    def big_bytes_per_cycle(self):
        return self.big_gbs / self.clock_ghz

    @property
    def memory_bytes_per_cycle(self):
        return self.memory_gbs * self.memory_share / self.clock_ghz

    @property
    def l2_bytes_per_cycle(self):
        return self.l2_gbs / self.clock_ghz


MIB = 1 << 20
# 4 MiB of MI300X's second cache are 16 channels of 2,048 lines, 8 MiB of MI200's 32 such. Taken to be a line a cycle: nobody has published it.
WALK = 2048
CHIPS = {chip.name: chip for chip in (
    Chip("rx7900xtx", "gfx1100", 96, 2.5, 960, 0.91, 3300, 6 * MIB, 96 * MIB, 32 << 10, 120, 260, 620, 123, 3.9),
    Chip("rx9070xt", "gfx1201", 64, 2.97, 640, 0.91, 3000, 8 * MIB, 64 * MIB, 32 << 10, 120, 260, 720, 195, 3.9),
    Chip("r9700", "gfx1201", 64, 2.92, 640, 0.91, 3000, 8 * MIB, 64 * MIB, 32 << 10, 120, 260, 720, 191, 3.9),
    Chip("strix-halo", "gfx1151", 40, 2.9, 256, 0.84, 1500, 2 * MIB, 32 * MIB, 32 << 10, 120, 260, 900, 59, 3.9),
    Chip("mi300x", "gfx942", 304, 2.1, 5300, 0.81, 17000, 4 * MIB, 256 * MIB, 32 << 10, 120, 300, 780, 1307, 3.9, 8, 17200, 460, WALK),
    Chip("mi250", "gfx90a", 104, 1.7, 1638, 0.85, 6000, 8 * MIB, 0, 16 << 10, 120, 300, 800, 181, 3.9, walk_cycles=WALK),
    Chip("mi210", "gfx90a", 104, 1.7, 1638, 0.85, 6000, 8 * MIB, 0, 16 << 10, 120, 300, 800, 181, 3.9, walk_cycles=WALK),
)}


@dataclasses.dataclass(frozen=True)
class Timing:
    """Issue and latency of a family, in cycles. RDNA: calibrated on recorded traces (`calibrate`); CDNA: from the manual's rules."""
    wave: int
    simds: int  # of what shares shared memory and barriers: a WGP of RDNA, a CU of CDNA
    units: int  # CUs in that
    issue: dict  # a SIMD's pipe is taken so long, by kind
    latency: dict  # until the result of an instruction can be used by the vector ALU, by kind
    to_memory: int  # from a vector result to its use as an address or as stored data
    to_scalar: int  # from a vector result to its use by a scalar instruction or a branch
    lds: int  # latency without conflicts
    lds_bytes: int  # a cycle and CU
    l1_bytes: int  # a cycle and CU
    line: int
    branch: int  # a taken branch
    matrix_queue: int  # cycles of matrix instructions that may stand before a matrix instruction when it is issued
    condition: int  # from a scalar comparison to its branch
    waves: int  # a SIMD holds at most
    vgprs: int  # of a SIMD and lane
    granule: int
    lds_size: int


RDNA_ISSUE = {"valu": 1, "dual": 1, "dot": 1, "transcendental": 4, "shift64": 2, "wide": 4, "fp64": 16, "salu": 1}
RDNA_LATENCY = {"valu": 5, "dual": 5, "dot": 5, "transcendental": 9, "shift64": 9, "wide": 10, "fp64": 38, "salu": 2, "wmma": 8}
CDNA_ISSUE = {"valu": 4, "dual": 4, "dot": 4, "transcendental": 16, "shift64": 8, "wide": 16, "fp64": 4, "salu": 4}
CDNA_LATENCY = {"valu": 4, "dual": 4, "dot": 4, "transcendental": 16, "shift64": 8, "wide": 16, "fp64": 8, "salu": 4, "mfma": 8}
RDNA = dict(wave=32, simds=4, units=2, issue=RDNA_ISSUE, latency=RDNA_LATENCY, to_memory=17, to_scalar=16, lds=31,
            lds_bytes=128, l1_bytes=128, line=128, branch=9, condition=10, matrix_queue=0, waves=16, lds_size=128 << 10)
TIMINGS = {
    "gfx1100": Timing(**RDNA, vgprs=1536, granule=24), "gfx1101": Timing(**RDNA, vgprs=1536, granule=24),
    "gfx1102": Timing(**RDNA, vgprs=1024, granule=16), "gfx1151": Timing(**RDNA, vgprs=1536, granule=24),
    **{name: Timing(**{**RDNA, "latency": {**RDNA_LATENCY, "salu": 9}, "matrix_queue": 72}, vgprs=1536, granule=24) for name in ("gfx1200", "gfx1201")},
    **{name: Timing(wave=64, simds=4, units=1, issue=CDNA_ISSUE, latency=CDNA_LATENCY, to_memory=8, to_scalar=16, lds=64,
                    lds_bytes=128, l1_bytes=64, line=128, branch=16, condition=8, matrix_queue=0, waves=8, vgprs=512, granule=8, lds_size=64 << 10)
       for name in ("gfx90a", "gfx942")},
}


def matrix_cycles(name, architecture):
    """Cycles that a matrix instruction takes its SIMD's matrix pipe."""
    if name.startswith(("v_wmma", "v_swmmac")):
        narrow = "iu4" in name or "iu8" in name or "fp8" in name or "bf8" in name
        if architecture.startswith("gfx12"):
            return 8 if narrow else 16
        return 16 if "iu4" in name else 32
    if "4x4x4" in name:
        return 8
    if "f64" in name or "_f32_16x16x4_f32" in name or "_f32_32x32x2_f32" in name:
        return 64 if "32x32" in name else 32
    passes = 32 if "32x32" in name else 16
    if architecture == "gfx90a":  # half the rate in 16 bits, and 16x16x16 in int8 alone
        passes *= 2
    return passes
