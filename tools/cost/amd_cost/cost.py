"""The modelled time of a launch: a work-group is traced, a unit full of such groups is run through its pipes, the rest is arithmetic."""
import collections
import dataclasses
import math

from .pipeline import PIPES, Supply, Unit
from .trace import Wave

MAX_STEPS = 400_000  # instructions that are run through the pipes at most, where the groups of a unit are more than fit
CLASSES = ("valu", "dual", "dot", "transcendental", "scalar_transcendental", "wide", "shift64", "fp64", "wmma", "mfma", "salu", "smem", "branch", "lds", "load", "store", "atomic",
           "barrier", "wait", "fence", "hint", "end")


@dataclasses.dataclass
class Cost:
    kernel: str
    chip: str
    groups: int
    microseconds: float
    bound: str
    shares: dict  # of each pipe, of the time
    counts: dict  # instructions of a work-group by class
    matrix: dict  # matrix instructions of a work-group by name
    waves_per_simd: float
    limit: str  # what limits them
    vgprs: int
    lds_bytes: int
    scratch_bytes: int
    bytes_asked: float  # by the lanes, of the whole launch
    bytes_from_l2: float
    bytes_from_memory: float
    lds_conflicts: float  # cycles of shared memory for one without conflicts
    unknown: int  # accesses of a group whose addresses are not known
    assumed: int  # branches of a group on unknown conditions


def trace_groups(kernel, launch, l2s=1):
    """Traces of the first work-group's waves. Each knows how its accesses move over the grid (`moves`: axis, groups that stay on one address, bytes to the
    next), the share of an access that is the first to its lines in the whole grid (`shares`), and the share that is the first of its second cache, of
    which the chip has `l2s` (`reaches`)."""
    waves = range(-(-launch.threads // kernel.timing.wave))
    traces = [Wave(kernel, launch, (0, 0, 0), wave).run() for wave in waves]
    probes = {}
    for axis, size in enumerate(launch.grid):
        # In larger groups only the first wave is traced, because the accesses of the others move over the grid in the same
        # way. Along x neighbours count, along y and z runs of groups may share (query heads of a KV head).
        for far in [1] if axis == 0 else [1 << i for i in range(size.bit_length())]:
            if far < size:
                group = tuple(far * int(i == axis) for i in range(3))
                followed = waves if axis == 0 and len(waves) <= 16 else range(1)
                probes.setdefault(axis, []).append((far, [Wave(kernel, launch, group, wave).run() for wave in followed]))
    for trace in [*traces, *(other for tries in probes.values() for _, others in tries for other in others)]:
        name_accesses(trace)
    for wave, trace in enumerate(traces):
        trace.moves, trace.shares, trace.reaches = {}, {}, {}
        beside = probes[0][0][1] if 0 in probes else ()
        new = new_share(trace, beside[wave]) if wave < len(beside) else 1.0
        for at, access in enumerate(trace.accesses):
            if access is None or not access.lines:
                continue
            if access.private:
                trace.shares[at] = trace.reaches[at] = 0.0
                continue
            share, caches, moves = 1.0, 1.0, []
            for axis, tries in probes.items() if access.known else ():
                run, moved = first_move(traces, trace, wave, at, tries)
                if moved is None:
                    continue
                if moved:
                    moves.append((axis, run, moved))
                    share *= min(1.0, abs(moved) / kernel.timing.line) * (new if axis == 0 and run == 1 else 1.0)
                sharers = run if moved else launch.grid[axis]
                share /= sharers
                caches *= caches_of(sharers, math.prod(launch.grid[:axis]), l2s)
            trace.moves[at], trace.shares[at] = tuple(moves), max(share, 1.0 / launch.groups)
            trace.reaches[at] = min(1.0, trace.shares[at] * min(caches, l2s))
    return traces


def caches_of(sharers, stride, l2s):
    """How many second caches serve work-groups that stand `stride` apart in the grid: groups go to the caches in turn."""
    return min(sharers, l2s // math.gcd(stride, l2s))


def name_accesses(trace):
    """Waves of a group part and meet again: an access is named by its instruction and how often the wave has executed that before."""
    trace.names, trace.named, times = {}, {}, collections.Counter()
    for at, access in enumerate(trace.accesses):
        if access is not None:
            step = trace.steps[at]
            trace.names[at] = step, times[step]
            trace.named[trace.names[at]] = access
            times[step] += 1


def first_move(traces, trace, wave, at, tries):
    """(groups that stay on an access's address, bytes from there to the next; 0 where all do), or (1, None) where paths part."""
    name = trace.names[at]
    for far, others in tries:
        other, base = (others[wave], trace) if wave < len(others) else (others[0], traces[0])
        if name not in other.named or name not in base.named:
            return 1, None
        if moved := other.named[name].first - base.named[name].first:
            return far, moved
    return 1, 0


def new_share(trace, neighbour):
    """The share of a group's lines that the group before it has not touched."""
    def lines(wave):
        return {number for access in wave.accesses if access is not None and access.known for number in access.lines}
    moved = {number for a, b in zip(trace.accesses, neighbour.accesses) if a is not None and b is not None and a.known and a.first != b.first
             for number in b.lines}
    return len(moved - lines(trace)) / len(moved) if moved else 1.0


def place(launch, number):
    """A work-group's place in the grid: they start along x first. One unit's groups stand as many apart as there are units."""
    x, y, _ = launch.grid
    return number % x, number // x % y, number // (x * y)


def unit_cycles(kernel, launch, chip, traces, count):
    """(cycles that a unit takes for so many work-groups beside each other when all units have as many, those of its busiest pipe)"""
    units = chip.units / kernel.timing.units
    unit = Unit(kernel, chip, Supply(chip, kernel.timing, units))
    cycles = max(unit.run([(place(launch, i * int(units)), traces) for i in range(count)], count))
    return cycles, max(busy / len(unit.free.get(pipe, (0,))) for pipe, busy in unit.busy.items())


@dataclasses.dataclass
class Filling:
    """What work-groups of one kernel take by how many of them a unit has."""
    one: float  # microseconds
    full: float
    busiest: float  # of `full`: what its busiest pipe works, the least that these instructions can take
    resident: int
    units: float

    def least(self, groups):
        return self.busiest * groups / self.units / self.resident

    def microseconds(self, groups):
        each = groups / self.units
        if each <= 1 or self.resident == 1:
            return self.one * max(each, 1.0)
        if each < self.resident:
            return self.one + (self.full - self.one) * (each - 1) / (self.resident - 1)
        return self.full * each / self.resident


def filling(kernel, launch, chip):
    traces = trace_groups(kernel, launch, chip.l2s)
    resident = max(1, kernel.waves_per_simd(launch.threads, launch.dynamic_lds)[1])
    scale = 1 / chip.clock_ghz / 1000
    one = unit_cycles(kernel, launch, chip, traces, 1)
    full = unit_cycles(kernel, launch, chip, traces, resident) if resident > 1 else one
    return Filling(one[0] * scale, full[0] * scale, full[1] * scale, resident, chip.units / kernel.timing.units)


def predict(kernel, launch, chip):
    traces = trace_groups(kernel, launch, chip.l2s)
    timing = kernel.timing
    waves_per_simd, resident, limit = kernel.waves_per_simd(launch.threads, launch.dynamic_lds)
    if resident < 1:
        raise ValueError(f"{kernel.name}: a work-group of {launch.threads} threads and {kernel.lds_bytes + launch.dynamic_lds} bytes of LDS fits no unit")
    units = chip.units / timing.units
    per_unit = launch.groups / units
    most = math.ceil(per_unit)
    steps = sum(len(trace.steps) for trace in traces)
    simulated = min(most, max(2 * resident, 1))
    if simulated > resident and simulated * steps > MAX_STEPS:
        simulated = min(resident, most)  # whole rounds: a part of one says little about the next
    supply = Supply(chip, timing, launch.groups)
    unit = Unit(kernel, chip, supply)
    apart = max(1, int(units))
    ends = sorted(unit.run([(place(launch, i * apart), traces) for i in range(simulated)], resident))
    cycles = ends[-1]
    scale = per_unit / simulated if launch.groups >= units else 1.0
    if most > simulated:
        first = ends[min(resident, simulated) - 1] if simulated > resident else 0.0
        each = (ends[-1] - first) / max(1, simulated - resident) if simulated > resident else ends[-1] / simulated
        cycles += (per_unit - simulated) * each
    shares = {}
    for pipe in PIPES:
        slots = len(unit.free[pipe]) if pipe in unit.free else 1
        shares[pipe] = min(1.0, unit.busy[pipe] * max(scale, 1.0) / (cycles * slots)) if cycles else 0.0
    largest = max(shares, key=shares.get)
    bound = largest if shares[largest] >= 0.6 else "latency"
    return summary(kernel, launch, chip, traces, cycles / chip.clock_ghz / 1000, bound, shares, (waves_per_simd, limit), unit, simulated)


def summary(kernel, launch, chip, traces, microseconds, bound, shares, occupancy, unit, simulated):
    counts, matrix = collections.Counter(), collections.Counter()
    lds = least = unknown = 0
    for trace in traces:
        for at, access in zip(trace.steps, trace.accesses):
            instruction = kernel.code[at]
            counts[instruction.kind] += 1
            if instruction.kind in ("wmma", "mfma"):
                matrix[instruction.name] += 1
            if access is not None:
                lds, least = lds + access.lds_cycles, least + access.lds_least
                unknown += not access.known
    whole = launch.groups / simulated
    return Cost(kernel.name, chip.name, launch.groups, microseconds, bound, shares, dict(counts), dict(matrix), occupancy[0], occupancy[1], kernel.vgprs,
                kernel.lds_bytes + launch.dynamic_lds, kernel.scratch_bytes, unit.bytes["asked"] * whole, unit.bytes["from L2"] * whole,
                unit.bytes["from memory"] * whole, lds / least if least else 1.0, unknown, sum(sum(t.assumed.values()) for t in traces))


def text(cost):
    """Lines for a person."""
    shares = ", ".join(f"{pipe} {share:.0%}" for pipe, share in cost.shares.items() if share >= 0.005)
    counts = ", ".join(f"{kind} {cost.counts[kind]}" for kind in CLASSES if cost.counts.get(kind))
    lines = [f"{cost.kernel} on {cost.chip}: {cost.microseconds:.1f} us modelled, bound: {cost.bound}",
             f"  pipes: {shares}",
             f"  {cost.groups} work-groups, each: {counts}"]
    if cost.matrix:
        lines.append("  matrix: " + ", ".join(f"{name} {count}" for name, count in cost.matrix.items()))
    lines.append(f"  {cost.waves_per_simd:g} waves a SIMD (limit: {cost.limit}), {cost.vgprs} VGPRs, {cost.lds_bytes} bytes of LDS, {cost.scratch_bytes} of scratch, "
                 f"LDS conflicts x {cost.lds_conflicts:.2f}")
    lines.append(f"  bytes: lanes ask for {cost.bytes_asked:.3g}, L2 gives {cost.bytes_from_l2:.3g}, DRAM {cost.bytes_from_memory:.3g} "
                 f"({cost.bytes_from_memory / cost.microseconds / 1000:.0f} GB/s)")
    if cost.unknown or cost.assumed:
        lines.append(f"  not known: addresses of {cost.unknown} accesses, conditions of {cost.assumed} branches")
    return "\n".join(lines)
