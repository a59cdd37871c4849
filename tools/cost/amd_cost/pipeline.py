"""Runs the waves of a unit (a WGP of RDNA, a CU of CDNA) through its pipes, cycle for cycle of those at which something starts.

Waves issue in order. An instruction starts when its operands are there, when what it waits for is there, and when its pipe is free:
per SIMD the vector, transcendental, matrix and scalar pipes; per CU shared memory and the first cache; the unit's part of the second
cache and of DRAM. Loads come back behind a latency and behind the bytes before them.
"""
import collections
import heapq

from .chips import matrix_cycles
from .isa import SCC, VECTOR
from .waits import wait_counts

PIPES = ("vector", "transcendental", "matrix", "scalar", "LDS", "L1", "L2", "memory")


class Supply:
    """What the unit gets of the second cache and of DRAM in a cycle, and its own cache of lines."""

    def __init__(self, chip, timing, active_units):
        whole = chip.units / timing.units
        share = whole / max(1.0, min(active_units, whole))
        self.l2_rate = min(chip.l2_bytes_per_cycle / whole * share, 64.0 * timing.units)
        self.memory_rate = min(chip.memory_bytes_per_cycle / whole * share, 64.0 * timing.units)
        self.big_rate = min(chip.big_bytes_per_cycle / whole * share, 64.0 * timing.units)
        self.seen, self.behind, self.behind_l2 = set(), 0.0, 0.0
        self.lines = [collections.OrderedDict() for _ in range(timing.units)]
        self.capacity = chip.l1_bytes // timing.line
        self.l2_free = self.big_free = self.memory_free = self.walk_free = 0.0

    def hit(self, unit, line):
        lines = self.lines[unit]
        if line in lines:
            lines.move_to_end(line)
            return True
        lines[line] = True
        if len(lines) > self.capacity:
            lines.popitem(last=False)
        return False


class WaveState:
    __slots__ = ("trace", "at", "time", "group", "simd", "ready", "read", "outstanding", "step", "index")

    def __init__(self, trace, group, simd, start, step, index):
        self.trace, self.group, self.simd, self.step, self.index = trace, group, simd, step, index
        self.at, self.time, self.ready, self.read = 0, start, {}, {}
        self.outstanding = {"loads": [], "stores": [], "lds": [], "scalar": []}


class Unit:
    def __init__(self, kernel, chip, supply):
        self.kernel, self.chip, self.timing, self.supply = kernel, chip, kernel.timing, supply
        t = self.timing
        self.free = {pipe: [0.0] * (t.units if pipe in ("LDS", "L1") else t.simds) for pipe in PIPES[:6]}
        self.busy = dict.fromkeys(PIPES, 0.0)
        self.waits = [wait_counts(i) if i.kind == "wait" else None for i in kernel.code]
        self.matrix = [matrix_cycles(i.name, kernel.architecture) if i.kind in ("wmma", "mfma") else 0 for i in kernel.code]
        self.recorded, self.pinned, self.one_simd = None, None, False  # for calibration: (wave, instruction, cycle); cycles that are given
        self.bytes = collections.Counter()

    def run(self, groups, resident):
        """groups: (place in the grid, traces of its waves); returns the cycle at which each ended."""
        t, waiting, queue, order = self.timing, collections.deque(enumerate(groups)), [], 0
        self.barrier, self.members, ends = {}, {}, [0.0] * len(groups)
        next_simd = 0

        def start(time):
            nonlocal order, next_simd
            number, (step, traces) = waiting.popleft()
            self.members[number] = len(traces)
            for trace in traces:
                state = WaveState(trace, number, 0 if self.one_simd else next_simd % t.simds, time, step, order)
                heapq.heappush(queue, (time, order, state))
                order += 1
                next_simd += 1
        while waiting and len(self.members) < resident:
            start(0.0)
        while queue:
            _, index, wave = heapq.heappop(queue)
            done = self.advance(wave, queue)
            if done is None:
                continue
            self.members[wave.group] -= 1
            ends[wave.group] = max(ends[wave.group], done)
            if not self.members[wave.group]:
                del self.members[wave.group]
                self.release(wave.group, queue)
                if waiting:
                    start(done)
            else:
                self.check_barrier(wave.group, queue)
        return ends

    # --- one instruction ---
    def advance(self, wave, queue):
        """Issues the wave's next instruction or puts it back to when it can; the cycle of its end when it was the last one."""
        code, trace = self.kernel.code, wave.trace
        position = trace.steps[wave.at]
        instruction = code[position]
        kind = instruction.kind
        earliest = wave.time
        ready = wave.ready
        extra = 0
        if kind in ("load", "store", "lds", "atomic", "smem"):
            extra = self.timing.to_memory - self.timing.latency["valu"]
        elif kind in ("salu", "branch"):
            extra = self.timing.to_scalar - self.timing.latency["valu"]
        for register in instruction.reads:
            found = ready.get(register)
            if found is not None:
                if register == SCC and kind == "branch":
                    earliest = max(earliest, found[0] - self.timing.latency["salu"] + self.timing.condition)
                when = found[0] + (extra if found[1] and (register >= VECTOR or kind in ("salu", "branch")) else 0)
                if when > earliest:
                    earliest = when
        for register in instruction.writes:
            found = ready.get(register)
            if found is not None and found[2] and found[0] > earliest:
                earliest = found[0]
        if kind in ("load", "lds"):  # what a vector instruction still reads cannot be overwritten
            for register in instruction.writes:
                if (read := wave.read.get(register, -1e9) + self.timing.to_memory) > earliest:
                    earliest = read
        if self.pinned and (given := self.pinned.get((wave.index, wave.at))) is not None:
            earliest = max(earliest, given)
        elif kind == "wait":
            earliest = max(earliest, self.waited(wave, self.waits[position]))
        pipe, taken = self.pipe_of(instruction, position, trace.accesses[wave.at])
        slot = wave.simd if pipe not in ("LDS", "L1") else wave.simd * self.timing.units // self.timing.simds
        if pipe is not None:
            free = self.free[pipe][slot] - (self.timing.matrix_queue if pipe == "matrix" else 0)
            if pipe == "transcendental":  # issued by the vector pipe
                free = max(free, self.free["vector"][slot])
            earliest = free if free > earliest else earliest
        if queue and earliest > wave.time and earliest > queue[0][0]:
            wave.time = earliest
            heapq.heappush(queue, (earliest, wave.index, wave))
            return None
        if self.recorded is not None:
            self.recorded.append((wave.index, position, earliest))
        if pipe is not None:
            begin = earliest if pipe != "matrix" or self.free[pipe][slot] < earliest else self.free[pipe][slot]
            self.free[pipe][slot] = begin + taken
            self.busy[pipe] += taken
        if kind == "transcendental":
            self.free["vector"][slot] = max(self.free["vector"][slot], earliest + self.timing.issue["valu"])
        elif kind == "wmma":  # the vector pipe issues nothing beside it
            self.free["vector"][slot] = max(self.free["vector"][slot], self.free["matrix"][slot] + (8 if self.timing.matrix_queue else 0))
            taken = self.free["matrix"][slot] - earliest  # until its result
        wave.at += 1
        return self.finish(wave, instruction, trace.accesses[wave.at - 1], earliest, taken, slot, queue)

    def pipe_of(self, instruction, position, access):
        kind, issue = instruction.kind, self.timing.issue
        if kind in ("wmma", "mfma"):
            return "matrix", self.matrix[position]
        if kind in ("transcendental", "scalar_transcendental"):
            return "transcendental", issue["transcendental"] if kind == "transcendental" else 1
        if kind in issue and kind != "salu":
            return "vector", issue[kind]
        if kind in ("salu", "branch", "smem"):
            return "scalar", issue["salu"]
        if kind == "lds":
            return "LDS", max(1, access.lds_cycles)
        if kind in ("load", "store", "atomic"):
            return "L1", max(1, len(access.lines), -(-access.bytes // self.timing.l1_bytes))
        return None, 1

    def finish(self, wave, instruction, access, at, taken, slot, queue):
        kind, timing = instruction.kind, self.timing
        step = timing.issue["salu"] if timing.wave == 64 else 1
        wave.time = at + step
        if kind in ("load", "store", "atomic"):
            wave.time = at + step
            when = self.memory(access, at, taken, slot, wave, kind)
            wave.outstanding["loads" if kind == "load" or instruction.writes else "stores"].append(when)
            self.result(wave, instruction.writes, when, False, True)
        elif kind == "lds":
            when = at + timing.lds + taken
            wave.outstanding["lds"].append(when)
            self.result(wave, instruction.writes, when, False, True)
        elif kind == "fence":
            self.fence(wave, instruction.name, at)
        elif kind == "smem":
            when = at + self.chip.l2_cycles
            wave.outstanding["scalar"].append(when)
            self.result(wave, instruction.writes, when, False, True)
        elif kind == "branch":
            following = wave.trace.steps[wave.at]
            if following != self.kernel.places[instruction.address] + 1:
                wave.time = at + timing.branch
        elif kind == "barrier" and "signal" not in instruction.name:
            return self.arrive(wave, at, queue)
        elif kind == "end":
            return max([at, *wave.outstanding["stores"]])
        elif kind in ("salu",):
            self.result(wave, instruction.writes, at + timing.latency["salu"], False, False)
        elif instruction.writes or instruction.reads:
            for register in instruction.reads:
                wave.read[register] = at
            latency = timing.latency.get(kind, timing.latency["valu"])
            if kind in ("wmma", "mfma"):
                latency += taken
            else:
                latency = max(latency, taken)
            self.result(wave, instruction.writes, at + latency, True, kind in ("wmma", "mfma"))
        heapq.heappush(queue, (wave.time, wave.index, wave))
        return None

    @staticmethod
    def result(wave, registers, when, vector, memory):
        for register in registers:
            wave.ready[register] = (when, vector, memory)

    def memory(self, access, at, taken, unit, wave, kind):
        """The cycle at which an access is complete."""
        supply, chip, line = self.supply, self.chip, self.timing.line
        shift = sum(wave.step[axis] // run * moved for axis, run, moved in wave.trace.moves.get(wave.at - 1, ())) // line
        share = wave.trace.shares.get(wave.at - 1, 1.0)
        reach = wave.trace.reaches.get(wave.at - 1, share)
        missed = first = 0
        for number in access.lines:
            place = None if number is None else number + shift
            if kind != "load" or place is None or not supply.hit(unit, place):
                missed += 1
                if place is None or place not in supply.seen:
                    first += 1
                    supply.seen.add(place)
        when = at + taken + chip.l1_cycles
        self.bytes["asked"] += access.bytes
        if not missed:
            return when
        moved = missed * line if kind == "load" else access.bytes
        self.bytes["from L2"] += moved
        supply.l2_free = max(at, supply.l2_free) + moved / supply.l2_rate
        self.busy["L2"] += moved / supply.l2_rate
        when = max(when, supply.l2_free + chip.l2_cycles)
        if reach > share:
            when = max(when, self.from_other_cache(at, moved, first / missed * (reach - share)))
        from_memory = moved * first / missed * share
        if from_memory:
            supply.memory_free = max(at, supply.memory_free) + from_memory / supply.memory_rate
            self.busy["memory"] += from_memory / supply.memory_rate
            self.bytes["from memory"] += from_memory
            supply.behind += first / missed * share  # one access in so many waits for DRAM
            if supply.behind >= 1:
                supply.behind -= 1
                when = max(when, supply.memory_free + chip.memory_cycles)
            else:
                when = max(when, supply.memory_free + chip.l2_cycles)
        return when

    def from_other_cache(self, at, moved, share):
        """What another second cache has read already comes from the cache behind them, for a part of the accesses."""
        supply, chip = self.supply, self.chip
        supply.big_free = max(at, supply.big_free) + moved * share / supply.big_rate
        supply.behind_l2 += share
        if supply.behind_l2 < 1:
            return supply.big_free + chip.l2_cycles
        supply.behind_l2 -= 1
        return supply.big_free + chip.big_cycles

    def fence(self, wave, name, at):
        """Write-backs of a unit's waves follow each other; those of other units at the same time are taken to be the same one."""
        supply = self.supply
        if "wb" in name and self.chip.walk_cycles:
            supply.walk_free = max(at, supply.walk_free) + self.chip.walk_cycles
            wave.outstanding["loads"].append(supply.walk_free)
        elif "wb" in name:
            wave.outstanding["stores"].append(at + self.chip.l2_cycles)
        else:
            supply.lines[wave.simd * self.timing.units // self.timing.simds].clear()
            if name == "global_inv":
                wave.outstanding["loads"].append(at + self.chip.l1_cycles)

    def waited(self, wave, counts):
        latest = wave.time
        for names, left in counts:
            for name in names.split():
                pending = wave.outstanding[name]
                if len(pending) > left:
                    latest = max(latest, max(pending[:len(pending) - left]))
                    del pending[:len(pending) - left]
        return latest

    def arrive(self, wave, at, queue):
        self.barrier.setdefault(wave.group, []).append((wave, at))
        self.check_barrier(wave.group, queue)
        return None

    def check_barrier(self, group, queue):
        if len(self.barrier.get(group, ())) == self.members.get(group, 0) > 0:
            self.release(group, queue)

    def release(self, group, queue):
        arrived = self.barrier.pop(group, ())
        if arrived:
            latest = max(at for _, at in arrived) + (20 if len(arrived) > 1 else 1)
            for wave, _ in arrived:
                wave.time = latest
                heapq.heappush(queue, (latest, wave.index, wave))
