"""The kernels of src/kernels/amd, launched as its matvec.cpp and matmul.cpp launch them, and steps made of them."""
import functools
import struct

from .cost import predict
from .kernel import Buffer, Launch
from .own import TILE, TYPES, along_columns, tiles_of

RECORD = {"q4_0": 1152, "q4_k": 1184, "q6_k": 1696}  # bytes of 8 rows x 256 columns: weight_layout.h
FORMAT = {"q4_0": 0, "q4_k": 4, "q6_k": 6}
PART = struct.Struct("<QQQqiiiiii")
IMAGE, SUMS = 640, 16 * 8 * 4  # shared memory of a record of activations, of a tile's partial sums
MOST_CHUNK, GROUP_LDS, THREADS = 16384 // 256, 64 << 10, 512
LARGE_TILE = {32: TILE[True], 64: (64, 128, 512)}  # by the size of a wave: matmul_tiles.h
SMALL_DECODE = 2  # launches of a layer beside its four products: rotation with append, attention


class OwnPacked:
    def __init__(self, own):
        self.own, self.chip = own, own.chip

    @functools.lru_cache(None)
    def matvec(self, weights, columns, norm=False, gated=False):
        """`weights`: (format, rows) of each output of the call."""
        kernel = self.own.load("matvec_packed", "matvec_packed_1")
        records, tiles, parts, pointers = -(-columns // 256), 0, b"", []
        for i, (name, rows) in enumerate(weights):
            parts += PART.pack(0, 0, 0, rows, rows, tiles, records * RECORD[name], RECORD[name], FORMAT[name], 0)
            pointers += [(PART.size * i, Buffer()), (PART.size * i + 16, Buffer())]
            tiles += -(-rows // 8)
        parts += bytes(PART.size * (4 - len(weights)))
        slots = 2 if gated else 1
        tiles //= slots
        each = -(-tiles // self.chip.units)
        chunk = min(records, MOST_CHUNK)
        without = -(-chunk // 2) * 2 * IMAGE + 4 * records + 32
        batch = min(each, (GROUP_LDS - without) // (slots * SUMS), THREADS // 8)
        pointers += [(len(parts), Buffer()), *([(len(parts) + 16, Buffer())] if norm else [])]
        arguments = parts + struct.pack("<QqQfiiiiiiiii", 0, columns, 0, 1e-5, columns, 1, len(weights), tiles, int(gated), each, batch, chunk, 0)
        launch = Launch(kernel, (-(-tiles // each), 1, 1), (THREADS, 1, 1), [arguments], without + batch * slots * SUMS, pointers)
        return predict(kernel, launch, self.chip)

    def decode_us(self, model, launch_us, keys=128):
        q, kv, n = model.heads * model.head_dim, model.kv_heads * model.head_dim, model.layers
        base = "q4_k" if model.mixed else "q4_0"
        total = 0.0
        for better, count in ((base, n - n // 2), ("q6_k", n // 2)) if model.mixed else ((base, n),):
            calls = [(((base, q), (base, kv), (better, kv)), model.hidden, True, False), (((base, model.hidden),), q, False, False),
                     (((base, model.ffn),) * 2, model.hidden, True, True), (((better, model.hidden),), model.ffn, False, False)]
            total += count * sum(self.matvec(*call).microseconds for call in calls)
        name, rows, columns, *_ = model.output()
        total += self.matvec(((name, rows),), columns, True).microseconds
        total += n * self.own.attention(model, 1, keys, True).microseconds
        return total + (n * (4 + SMALL_DECODE) + 4) * launch_us

    @functools.lru_cache(None)
    def tile(self, name, columns, large):
        kernel = self.own.load("matmul_packed", f"matmul_packed_{name}_{'large' if large else 'small'}")
        size = LARGE_TILE[kernel.timing.wave] if large else TILE[False]
        return size, self.own.tile_filling(kernel, size, -(-columns // 256) * RECORD[name], columns, TYPES[name])

    @functools.lru_cache(None)
    def matmul(self, name, rows, columns, tokens, least=False):
        """`rows`: of each output of the launch."""
        size, _ = self.tile(name, 512, True)
        large = tokens > 32 and 2 * tiles_of(rows, tokens, size) >= self.chip.units
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
