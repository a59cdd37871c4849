"""Decode steps of models with experts and gated delta nets: every launch of a token's step with its own kernel."""
import functools
import struct

import numpy as np

from .cost import predict
from .kernel import Buffer, Launch
from .models import BLOCK
from .own import CODED, TYPES, WAVE_ROWS
from .own_packed import FORMAT, GROUP_LDS, IMAGE, MOST_CHUNK, PACKED, RECORD, THREADS, OwnPacked, expert_chain_call

EXPERT_PAIRS = {name: max(1, rows // 2) for name, rows in WAVE_ROWS.items()}  # rows of gate, and of up, that a wave of the portable kernels takes
SAMPLE_CHUNKS, SCAN_CHUNKS = 1024, 8
ROUTE_ROWS, ROUTE_LDS = 2, 17 << 10  # experts of a work-group, bytes of shared memory in a chain
FINISH = bytes(24)  # without biases and scales


class OwnExperts:
    def __init__(self, own):
        self.own, self.chip = own, own.chip
        self.packed = OwnPacked(own) if own.has_packed else None
        self.has_packed = (own.folder / "experts_packed.hsaco").exists()

    def one(self, file, name, grid, threads, arguments, buffers, lds=0):
        """`buffers`: by the offset of their pointer in the arguments."""
        kernel = self.own.load(file, name)
        launch = Launch(kernel, grid, (threads, 1, 1), [arguments], lds, list(buffers.items()))
        return predict(kernel, launch, self.chip)

    @functools.lru_cache(None)
    def norm(self, width):
        buffers = {0: Buffer(), 8: Buffer(), 16: Buffer()}
        return self.one("elementwise", "rms_norm", (1, 1, 1), min(1024, -(-width // 4)), struct.pack("<4Q4qfff4x", 0, 0, 0, 0, 1, width, width, 1, 1e-6, 1.0, 1.0), buffers)

    @functools.lru_cache(None)
    def conv(self, model):
        channels = model.channels()
        one = struct.pack("<8Q5q??6x", *[0] * 8, 1, channels, model.taps, channels, 4 * channels * (model.taps - 1), False, True)
        buffers = {8 * i: Buffer() for i in (0, 1, 3, 4)} | self.slots(40) | {56: Buffer(np.zeros(1, np.int32))}
        return self.one("causal_conv", "causal_conv", (-(-channels // 256), 1, 1), 256, one, buffers)

    @staticmethod
    def slots(offset):
        """A sequence of one row that goes on from slot 0 to slot 1."""
        return {offset: Buffer(np.array([0, 1, -1, 0], np.int32)), offset + 8: Buffer(np.array([0, 1], np.int32))}

    @functools.lru_cache(None)
    def delta_net(self, model):
        row, dim = model.channels(), model.state_dim
        one = struct.pack("<9Q4q5i?3x", *[0] * 9, row, row, row, 4 * model.value_heads * dim * dim, 1, model.key_heads, model.value_heads, dim, dim, True)
        buffers = {8 * i: Buffer() for i in range(7)} | self.slots(56)
        return self.one("delta_net", "gated_delta_net", (-(-dim // 32) * model.value_heads, 1, 1), 256, one, buffers)

    @functools.lru_cache(None)
    def gate(self, heads, dim, silu):
        one = struct.pack("<4Q3qiif?3x", 0, 0, 0, 0, 1, heads * dim, heads * dim, heads, dim, 1e-6, silu)
        return self.one("delta_net", "output_gate", (-(-heads // 4), 1, 1), 128, one, {0: Buffer(), 8: Buffer(), 24: Buffer(), **({16: Buffer()} if silu else {})})

    @functools.lru_cache(None)
    def route_rows(self, model, chained=False):
        """Each work-group of a token as its last one, which chooses: the launch ends when that does. `chained`: the call's part of a launch of experts_chain.h."""
        rows = model.experts + model.shared
        groups = -(-rows // (2 * ROUTE_ROWS if chained else ROUTE_ROWS))
        choice = struct.pack("<3Q4if3i2ifi", 0, 0, 0, model.experts, model.used, 0, 1, 1.0, 1, 1, 2, model.shared, model.shared, 1.0, 0)
        one = choice + struct.pack("<6Qf3i2Q2i", 0, 0, 0, 0, 0, 0, 1e-6, model.hidden, 1, 0, 0, 0, -(-(model.hidden // 4) // groups), 0)
        pointers = (8, 16, *(len(choice) + at for at in (0, 8, 16, 32, 40, 64, 72)))
        buffers = {at: Buffer() for at in pointers}
        if chained:
            one, pointers = expert_chain_call(one, list(buffers.items()), groups, "route")
            return self.one("experts_packed", "expert_chain", (groups, 1, 1), THREADS, one, dict(pointers), ROUTE_LDS)
        return self.one("route_rows", "route_rows", (groups, 1, 1), 256, one, buffers)

    def ids(self, model):
        """A token's experts: any, and the shared ones behind them."""
        chosen = np.random.default_rng(1).choice(model.experts, model.used, replace=False)
        return Buffer(np.array([*chosen, *range(model.experts, model.experts + model.shared)], np.int32))

    @functools.lru_cache(None)
    def experts(self, model, name, down):
        """The portable kernels."""
        rows, columns = (model.hidden, model.width) if down else (model.width, model.hidden)
        kernel = self.own.load("experts", f"expert_{'down' if down else 'gate_up'}_{'coded' if name in CODED else name}")
        wave, taken, row_bytes = kernel.timing.wave, model.used + model.shared, columns // BLOCK[name][0] * BLOCK[name][1]
        group_rows = 256 // wave * (WAVE_ROWS[name] if down else EXPERT_PAIRS[name])
        chunk, count = min(-(-columns // 256) * 256, 256 * wave), 1 if down else taken
        one = struct.pack("<2Q2q", 0, 0, rows * row_bytes, rows * row_bytes) + 2 * FINISH + struct.pack(
            "<q4Q6iiIii", row_bytes, 0, 0, 0, 0, rows, columns, taken, count, chunk, 1, 0, TYPES[name], 1, 0)
        buffers = {0: Buffer(), 8: Buffer(), 88: self.ids(model), 96: Buffer(), 104: Buffer(), 112: Buffer()}
        return self.one("experts", kernel.name, (-(-rows // group_rows), count, 1), 256, one, buffers, 4 * chunk)

    @functools.lru_cache(None)
    def packed_experts(self, model, name, down, chained=False):
        """The tuned kernels, as src/kernels/experts/amd/experts.cpp launches them. `chained`: the call's part of a launch of experts_chain.h."""
        rows, columns = (model.hidden, model.width) if down else (model.width, model.hidden)
        taken, tiles, records = model.used + model.shared, -(-rows // 8), -(-columns // 256)
        parts, inputs = (taken, taken) if down else (2, 1)
        cuts = tiles if down else tiles * taken
        each = -(-cuts // self.chip.groups)
        chunk = min(records, MOST_CHUNK // inputs // 2 * 2)
        image = inputs * -(-chunk // 2) * 2 * IMAGE
        of_cut = parts * (min(records, 16) * 8 * 4)
        batch = min(each, (GROUP_LDS - image) // of_cut, THREADS // 8 // parts)
        name = PACKED.get(name, name)
        expert_bytes = (records * tiles + 1) * RECORD[name]
        expert_bytes = -(-expert_bytes // 64) * 64
        one = struct.pack("<2Q2q", 0, 0, expert_bytes, expert_bytes) + 2 * FINISH + struct.pack(
            "<4Q13i2I4x", 0, 0, 0, 0, rows, columns, taken, tiles, records * RECORD[name], RECORD[name], cuts, parts, each, batch, chunk, FORMAT[name], 0, (1 << 31) // tiles + 1, (1 << 31) // parts + 1)
        buffers = {0: Buffer(), 8: Buffer(), 80: self.ids(model), 88: Buffer(), 96: Buffer(), 104: Buffer()}
        groups, lds = -(-cuts // each), image + batch * of_cut
        if chained:
            one, pointers = expert_chain_call(one, list(buffers.items()), groups, "down" if down else "gate_up")
            return self.one("experts_packed", "expert_chain", (groups, 1, 1), THREADS, one, dict(pointers), lds)
        return self.one("experts_packed", f"expert_packed_{'down' if down else 'gate_up'}", (groups, 1, 1), THREADS, one, buffers, lds)

    def at_least(self, microseconds, name, weights):
        """What a launch takes, and no less than its weights at the rate of long reads: of some portable kernels the model leaves out bytes."""
        elems, size = BLOCK[name]
        return max(microseconds, weights / elems * size / (self.chip.memory_gbs * self.chip.memory_share) / 1000)

    @functools.lru_cache(None)
    def sample(self, vocabulary):
        """Two launches of a greedy draw."""
        chunk = -(-vocabulary // SAMPLE_CHUNKS)
        row = struct.pack("<d6f4xiiii", 0.0, 0.0, 1.0, 0.0, 1.0, 1.0, 0.0, 0, 0, 0, -1)[:56]
        one = struct.pack("<6Q3i4x", *[0] * 6, 1, vocabulary, chunk)
        buffers = {0: Buffer(), 8: Buffer(row), 32: Buffer(), 40: Buffer()}
        groups = -(-(-(-vocabulary // chunk)) // SCAN_CHUNKS)
        return [self.one("sample", name, grid, 256, one, buffers) for name, grid in (("sample_scan", (groups, 1, 1)), ("sample_greedy", (1, 1, 1)))]

    def feed_forward(self, model, tuned):
        """(what, layers, microseconds)"""
        matrix = (model.used + model.shared) * model.width * model.hidden

        def products(name, down):
            kernel = self.packed_experts if tuned else self.experts
            return self.at_least(kernel(model, name, down).microseconds, name, matrix * (1 if down else 2))

        finer = model.finer_layers()
        plain, router = model.layers - finer, model.experts + model.shared
        return [("router: norm, product, choice", model.layers, self.at_least(self.route_rows(model).microseconds, "f32", router * model.hidden)),
                ("experts' gate and up", model.layers, products("q4_k", False)),
                ("experts' down (q4_k)", plain, products("q4_k", True)),
                ("experts' down (q6_k)", finer, products("q6_k", True))]

    def product(self, tuned, norm, weights, columns):
        """(launches, microseconds) of one call: a norm and a launch for each format, or one for all."""
        if tuned:
            return 1, self.packed.matvec(weights, columns, norm).microseconds
        by_format = {}
        for name, rows in weights:
            by_format[name] = by_format.get(name, 0) + rows
        found = [self.at_least(self.own.matvec(name, rows, columns).microseconds, name, rows * columns) for name, rows in by_format.items()]
        return len(found) + norm, sum(found) + (self.norm(columns).microseconds if norm else 0.0)

    def decode_launches(self, model, tuned, keys=128):
        """(what, launches of a step, microseconds of each without its launch)"""
        found = []

        def call(what, count, norm, weights, columns):
            launches, total = self.product(tuned, norm, weights, columns)
            found.append((what, count * launches, total / launches))

        attentions = model.layers // model.attention_every
        nets, values = model.layers - attentions, model.value_heads * model.state_dim
        call("delta net: q, k, v, gates", nets, True, (("q4_k", model.channels()), ("q4_k", values), *(("q4_k", model.value_heads),) * 2), model.hidden)
        found += [("delta net: convolution", nets, self.conv(model).microseconds), ("delta net: scan", nets, self.delta_net(model).microseconds),
                  ("delta net: output gate", nets, self.gate(model.value_heads, model.state_dim, True).microseconds)]
        call("delta net: output", nets, False, (("q4_k", model.hidden),), values)
        q, kv, finer = model.heads * model.head_dim, model.kv_heads * model.head_dim, model.finer_layers(True)
        for name, count in (("q4_k", attentions - finer), ("q6_k", finer)):
            call(f"attention: Q, K, V ({name})", count, True, (("q4_k", 2 * q), ("q4_k", kv), (name, kv)), model.hidden)
        if tuned:
            found.append(("attention, with rotation and append", attentions, self.packed.attention(model, keys).microseconds))
        else:
            found += [("rotation and append", attentions, 0.0), ("attention", attentions, self.own.attention(model, 1, keys, True).microseconds)]
        found.append(("attention: output gate", attentions, self.gate(model.heads, model.head_dim, False).microseconds))
        call("attention: output", attentions, False, (("q4_k", model.hidden),), q)
        found += self.feed_forward(model, tuned)
        call("output", 1, True, (("q6_k", model.vocabulary),), model.hidden)
        found += [("sample", 1, cost.microseconds) for cost in self.sample(model.vocabulary)]
        return [*found, ("embedding", 1, 0.0)]
