"""AMD's products, launched as matvec.cpp and matmul.cpp of src/kernels/matmul/amd launch them, and steps made of them."""
import functools
import struct

import numpy as np

from .chips import TIMINGS
from .cost import predict
from .kernel import Buffer, Launch
from .own import TILE, TYPES, along_columns, tiles_of

# Bytes of 8 rows x 256 columns by WeightFormat, in its order: weight_layout.h, weight_format.h.
RECORD = {"q4_0": 1152, "q5_0": 1408, "q8_0": 2176, "mxfp4": 1152, "q4_k": 1184, "q5_k": 1440, "q6_k": 1696, "q4_1": 1280, "q5_1": 1536, "iq4_nl": 1152,
          "iq4_xs": 1104, "q2_k": 672, "q3_k": 912, "iq3": 1104, "iq1_iq2": 848, "nvfp4": 1152, "f16": 4096, "bf16": 4096}
FORMAT = {name: i for i, name in enumerate(RECORD)}
# Types of the file that are packed into a format with another name.
PACKED = {"tq1_0": "q2_k", "tq2_0": "q2_k", "iq3_xxs": "iq3", "iq3_s": "iq3", "iq2_xxs": "iq1_iq2", "iq2_xs": "iq1_iq2",
          "iq2_s": "iq1_iq2", "iq1_s": "iq1_iq2", "iq1_m": "iq1_iq2"}
DENSE = ("f16", "bf16")
HALVES = ("q4_0", "q4_1", "q5_1", "iq4_nl")  # of which half tiles are taken with one token and waves of 32: takes_halves()
PART = struct.Struct("<QQQqiiiiiifi")
MATVEC_ARGUMENTS = 4 * PART.size + 64  # bytes of MatvecArgs
IMAGE, ROW_SUMS = 640, 16 * 4  # shared memory of a record of activations, of a row's partial sums
DENSE_IMAGE, MOST_DENSE_CHUNK = 1024, 12288 // 256
MOST_CHUNK, GROUP_LDS, THREADS = 16384 // 256, 64 << 10, 512
MATRIX_BEGIN = 256  # factors and zeros before the image of matvec_matrix.h
LEAST_MATRIX_TOKENS = {"gfx942": 2, "gfx1200": 8, "gfx1201": 8}  # that are multiplied on matrix instructions: matvec.cpp
LARGE_TILE = {32: TILE[True], 64: (64, 128, 512)}  # by the size of a wave: matmul_tiles.h
MOST_CHAINED, NEVER, POLL_CYCLES = 6, 2**31 - 1, 64  # calls of a launch of matvec_chain.h, the end of one that it has not, and a wave's sleep between two polls
CHAINED_NORMS = 2 * 88  # bytes of the norms of MatvecChainArgs
EXPERT_ARGUMENTS, ROUTE_ARGUMENTS = 176, 160  # bytes of ExpertVectorArgs of experts_args.h, of RouteGroupsArgs
# ExpertCall of experts_args.h: bytes of a launch's arguments before the call's own.
EXPERT_CALLS = {"output": 0, "route": 2 * MATVEC_ARGUMENTS, "gate_up": 2 * MATVEC_ARGUMENTS + ROUTE_ARGUMENTS,
                "down": 2 * MATVEC_ARGUMENTS + ROUTE_ARGUMENTS + EXPERT_ARGUMENTS, "dense": MATVEC_ARGUMENTS}
EXPERT_CHAIN_ARGUMENTS = EXPERT_CALLS["down"] + EXPERT_ARGUMENTS  # of all calls
APPEND = struct.Struct("<13Q3q12i3fi")  # what attention's call begins with: RopeAppendArgs


def chained_call(arguments, pointers, groups, call, before, behind):
    """(arguments, pointers) of a launch of several calls, of which only the work-groups of call number `call` start: those before have ended. `before`, `behind`: bytes of
    the other calls' arguments."""
    ends = [groups if i == call else 0 if i < call else NEVER for i in range(MOST_CHAINED)]
    arguments = bytes(before) + arguments + bytes(behind)
    pointers = [(offset + before, buffer) for offset, buffer in pointers]
    pointers.append((len(arguments) + 4 * MOST_CHAINED, Buffer(np.zeros(MOST_CHAINED, np.int32))))
    return arguments + struct.pack("<6iQii", *ends, 0, MOST_CHAINED, 0), pointers


def expert_chain_call(arguments, pointers, groups, call):
    """The same for a launch of experts_chain.h with all of EXPERT_CALLS."""
    before = EXPERT_CALLS[call]
    arguments, pointers = chained_call(arguments, pointers, groups, list(EXPERT_CALLS).index(call), before, EXPERT_CHAIN_ARGUMENTS - before - len(arguments))
    return arguments + struct.pack("<ii", 0, 0), pointers


class OwnPacked:
    def __init__(self, own):
        self.own, self.chip = own, own.chip

    @functools.lru_cache(None)
    def matvec(self, weights, columns, norm=False, gated=False, tokens=1, chained=None, with_experts=None):
        """`weights`: (format, rows) of each output of the call. `chained`: the call's number in a launch of several, of which this is the part of that call's
        work-groups; its first weights are counted as if they were not on their way before it begins. `with_experts`: the call of experts_chain.h that it is, output or dense."""
        dense = weights[0][0] in DENSE
        assert not dense or tokens == 1
        matrix = not dense and tokens >= LEAST_MATRIX_TOKENS.get(self.chip.architecture, 9)
        if dense:
            kernel = self.own.load("matvec_dense", "matvec_dense_1")
        else:
            kernel = self.own.load("matvec_packed", "matvec_packed_1" if tokens == 1 else "matvec_packed_8_matrix" if matrix else "matvec_packed_8")
        halves = tokens == 1 and kernel.timing.wave == 32 and (dense or all(name in HALVES for name, _ in weights))
        if halves and not dense:
            kernel = self.own.load("matvec_packed", "matvec_packed_1_halves")
        if chained is not None:
            kernel = self.own.load("matvec_packed", "matvec_chain_halves" if halves else "matvec_chain")
        if with_experts:
            kernel = self.own.load("experts_packed", "expert_chain_halves" if halves else "expert_chain")
        cut = 4 if halves else 16 if matrix else 8  # rows
        sums = cut * ROW_SUMS * tokens
        records, tiles, parts, pointers = -(-columns // 256), 0, b"", []
        for i, (name, rows) in enumerate(weights):
            name = PACKED.get(name, name)
            tile, record = (16 * columns, 512) if dense else (records * RECORD[name], RECORD[name])
            parts += PART.pack(0, 0, 0, rows, rows, tiles, tile, record, FORMAT[name], 0, 1.0, 0)
            pointers += [(PART.size * i, Buffer()), (PART.size * i + 16, Buffer())]
            tiles += -(-rows // cut)
        parts += bytes(PART.size * (4 - len(weights)))
        slots = 2 if gated else 1
        tiles //= slots
        each = -(-tiles // self.chip.groups)
        if matrix:
            together = 128 // kernel.timing.wave
            record = 608 * (-(-tokens // together) * together)  # shared memory of its activations
            batch, chunk, lds = self.matrix_plan(each, records, tokens, record, slots * sums)
        else:
            chunk = min(records, MOST_DENSE_CHUNK if dense else MOST_CHUNK // next(most for most in (1, 2, 4, 8) if tokens <= most))
            without = tokens * (-(-chunk // 2) * 2 * (DENSE_IMAGE if dense else IMAGE) + 4 * records) + 32
            batch = min(each, (GROUP_LDS - without) // (slots * sums), THREADS // (cut * tokens))
            lds = without + batch * slots * sums
        pointers += [(len(parts), Buffer()), *([(len(parts) + 16, Buffer())] if norm else [])]
        arguments = parts + struct.pack("<QqQfiiiiiiiii", 0, columns, 0, 1e-5, columns, tokens, len(weights), tiles, int(gated), each, batch, chunk, 0)
        groups = -(-tiles // each)
        if chained is not None:
            arguments, pointers = chained_call(arguments, pointers, groups, chained, chained * len(arguments),
                                               (MOST_CHAINED - 1 - chained) * len(arguments) + CHAINED_NORMS)
            arguments += struct.pack("<Ii", 0, 0)  # no call is a norm
        if with_experts:
            arguments, pointers = expert_chain_call(arguments, pointers, groups, with_experts)
        launch = Launch(kernel, (groups, 1, 1), (THREADS, 1, 1), [arguments], lds, pointers)
        return predict(kernel, launch, self.chip)

    def handover_us(self):
        """From the last store of a call of a chain to the first load of the next one's activations: the store, the counter, half a poll and a poll, the load. Write-backs
        are in the kernel's own time."""
        chip = self.chip
        there = chip.memory_cycles if chip.l2s > 1 else chip.l2_cycles  # where all units meet
        return (3.5 * there + POLL_CYCLES / 2) / chip.clock_ghz / 1000

    @staticmethod
    def matrix_plan(each, records, tokens, record, sums):
        """Cuts of a batch, records of a chunk and bytes of shared memory, as plan_matrix of matvec.cpp finds them."""
        best = None
        for batch in range(min(each, THREADS // (16 * tokens)), 0, -1):
            room = GROUP_LDS - MATRIX_BEGIN - batch * sums - 4 * tokens * records
            if room < record:
                continue
            batches, chunks = -(-each // batch), -(-records // (room // record))
            cost = (records if chunks == 1 else batches * records) + 4 * batches * chunks
            if best is None or cost < best[0]:
                even, chunk = -(-each // batches), -(-records // chunks)
                best = cost, even, chunk, MATRIX_BEGIN + chunk * record + even * sums + 4 * tokens * records
        return best[1:]

    @functools.lru_cache(None)
    def attention(self, model, keys, kv="f16"):
        """One token of one sequence over pages of 64 tokens in their order, with rotation and append; attention_decode.cpp."""
        group, head = model.heads // model.kv_heads, model.head_dim
        heads, padded = 1 if group == 1 else 4 if group <= 4 else 8, 64 if head <= 64 else 128 if head <= 128 else 256
        tiles = -(-group // heads)
        units, shared = self.chip.groups, model.kv_heads * tiles
        pieces = max(1, min(64, units // shared))
        while -(-shared * pieces // units) * units * 100 > shared * pieces * 106 and pieces < 64:
            pieces += 1
        blocks, row, rounds = -(-keys // 64), model.kv_heads * head, -(-keys // 128)
        each = -(-rounds // pieces)
        if heads * padded <= 512 and -(-rounds // each) * model.heads <= self.chip.groups:
            heads, tiles = 1, group
        kernel = self.own.load("attention_decode", f"attention_decode_{kv}_{padded}_{heads}")
        values = heads * padded * 32 // kernel.timing.wave
        threads = 512 if values <= 512 else 256 if values <= 1024 else 128
        block, plane = (64 * 2 * row, 64 * head) if kv != "q8_0" else (64 * 2 * row * 34 // 32, 64 * head * 34 // 32)
        names = ("q", "out", "k", "v", "table", "offsets", "lengths", "sums", "states", "counters")
        buffers = {name: Buffer() for name in names} | {"table": Buffer(np.arange(blocks, dtype=np.int32)), "offsets": Buffer(np.array([0, 1], np.int32)),
                                                        "lengths": Buffer(np.array([keys], np.int32))}
        arguments = struct.pack("<QQ QQQqqqqiiii QQQQQqq IiiiiiiifffI QQQ iiii iiii", 0, 0, 0, 0, 0, block, 0, head, plane, blocks, 6, 64 * head, 0, 0, 0, 0, 0, 0,
                                row * group, 0, 0, 0, 1, model.heads, model.kv_heads, head, 1, 0, 0.1275, 0.0, 0.0, 0, 0, 0, 0, 0, tiles, 1, head, group, 65536 // tiles + 1, pieces, (1 << 31) // pieces + 1)
        offsets = (0, 8, 16, 24, 32, 88, 96, 192, 200, 208)
        pointers = list(zip(offsets, buffers.values()))
        of_append = [buffers["q"], buffers["q"], buffers["q"], *(Buffer() if model.head_norms else None for _ in range(2)), Buffer(), None,
                     Buffer(np.array([keys - 1], np.int32))]  # the position
        pointers += [(len(arguments) + 8 * i, buffer) for i, buffer in enumerate(of_append) if buffer]
        arguments += APPEND.pack(*[0] * 13, row * (group + 2), block, plane, model.heads, model.kv_heads, head, head // 2, 1, blocks, 6, 0, 0, 0, 0, 0, 1e-6, 1.0, 0.0, 1)
        launch = Launch(kernel, (-(-rounds // each), model.kv_heads * tiles, 1), (threads, 1, 1), [arguments], 0, pointers)
        return predict(kernel, launch, self.chip)

    @property
    def chains(self):
        """Whether products that follow each other are one launch: on waves of 32, as matvec_chain_launch.cpp has it."""
        return TIMINGS[self.chip.architecture].wave == 32

    def launches(self, model, chains=None):
        """Of a step. Beside the layers: embedding, two kernels of the draw, the first layer's Q, K and V or the output. The last layer's launch of products takes the output in,
        but not where the layers' products take halves of tiles, which the output's Q6_K does not."""
        if not (self.chains if chains is None else chains):
            return 5 * model.layers + 4
        return 2 * model.layers + 4 + (not model.mixed)

    def decode_launches(self, model, launch_us, keys=128, chains=None):
        """(what, how many of them in a step, microseconds of each with what it begins with: a launch, or what is handed over inside of one)"""
        q, kv, n = model.heads * model.head_dim, model.kv_heads * model.head_dim, model.layers
        base = "q4_k" if model.mixed else "q4_0"
        chains = self.chains if chains is None else chains
        found = []

        def call(what, count, arguments, place):
            """`place` in a launch of several products, or None."""
            us = self.matvec(*arguments, chained=place if chains else None).microseconds
            found.append((what, count, us + (self.handover_us() if chains and place else launch_us)))

        for better, count in ((base, n - n // 2), ("q6_k", n // 2)) if model.mixed else ((base, n),):
            call(f"Q, K, V ({better})", count - (better == base), (((base, q), (base, kv), (better, kv)), model.hidden, True, False), 1)
            call("attention's output", count, (((base, model.hidden),), q, False, False), 0)
            call("gate and up", count, (((base, model.ffn),) * 2, model.hidden, True, True), 1)
            call(f"down ({better})", count, (((better, model.hidden),), model.ffn, False, False), 1)
        call("Q, K, V of the first layer", 1, (((base, q), (base, kv), (base, kv)), model.hidden, True, False), None)
        name, rows, columns, *_ = model.output()
        call("output", 1, (((name, rows),), columns, True, False), 1 if model.mixed else None)
        found.append(("attention, with rotation and append", n, self.attention(model, keys).microseconds + launch_us))
        # The operations outside of the layers take no longer than their launches.
        return [*found, ("others", 3, launch_us)]

    def decode_us(self, model, launch_us, keys=128, chains=None):
        return sum(count * microseconds for _, count, microseconds in self.decode_launches(model, launch_us, keys, chains))

    @functools.lru_cache(None)
    def tile(self, name, columns, large):
        packed = PACKED.get(name, name)
        kernel = self.own.load("matmul_packed", f"matmul_packed_{packed}_{'large' if large else 'small'}")
        size = LARGE_TILE[kernel.timing.wave] if large else TILE[False]
        return size, self.own.tile_filling(kernel, size, -(-columns // 256) * RECORD[packed], columns, TYPES[name])

    @functools.lru_cache(None)
    def matmul(self, name, rows, columns, tokens, least=False):
        """`rows`: of each output of the launch."""
        size, _ = self.tile(name, 512, True)
        large = tokens > 32 and 2 * tiles_of(rows, tokens, size) >= self.chip.groups
        if not large:
            size = TILE[False]
        return along_columns(lambda part: self.tile(name, part, large)[1], tiles_of(rows, tokens, size), columns, least)

    def prefill_products(self, model, tokens, least):
        """As Own.prefill_products, with one launch for the outputs of a call that have one format."""
        q, kv, n = model.heads * model.head_dim, model.kv_heads * model.head_dim, model.layers
        base, better = ("q4_k", n // 2) if model.mixed else ("q4_0", 0)
        calls = [("q, k, v", base, (q, kv, kv), model.hidden, n - better), ("q, k", base, (q, kv), model.hidden, better), ("v", "q6_k", (kv,), model.hidden, better),
                 ("o", base, (model.hidden,), q, n), ("gate, up", base, (model.ffn,) * 2, model.hidden, n),
                 ("down", base, (model.hidden,), model.ffn, n - better), ("down", "q6_k", (model.hidden,), model.ffn, better)]
        return [(f"{what}, {name}", count, self.matmul(name, rows, columns, tokens, least)) for what, name, rows, columns, count in calls if count]
