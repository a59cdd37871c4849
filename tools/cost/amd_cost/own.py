"""This project's portable kernels, launched as src/kernels/matmul/portable/matmul.cpp, flash.cpp and paged.cpp launch them, and the steps made of them."""
import functools
import struct

import numpy as np

from .cost import filling, predict
from .kernel import Buffer, Kernel, Launch
from .models import BLOCK
from .peers import stream_us

TYPES = {"f32": 0, "f16": 1, "q4_0": 2, "q4_1": 3, "q5_0": 6, "q5_1": 7, "q8_0": 8, "q2_k": 10, "q3_k": 11, "q4_k": 12, "q5_k": 13, "q6_k": 14, "iq4_nl": 20,
         "iq3_s": 21, "iq2_s": 22, "iq4_xs": 23, "bf16": 30, "mxfp4": 39, "iq2_xxs": 16, "iq2_xs": 17, "iq3_xxs": 18, "iq1_s": 19, "iq1_m": 29, "tq1_0": 34,
         "tq2_0": 35, "nvfp4": 40}
CODED = ("iq1_s", "iq1_m", "iq2_xxs", "iq2_xs", "iq2_s", "iq3_xxs", "iq3_s", "tq1_0", "tq2_0", "nvfp4")  # formats that share a portable kernel
WAVE_ROWS = {name: 1 if name in CODED else 2 if name in ("f32", "f16", "bf16", "q3_k", "q5_k", "q6_k") else 4 for name in TYPES}  # with one token
PART = struct.Struct("<QQQqqiiif")
TILE = {True: (128, 128, 256), False: (32, 64, 128)}  # large and small: tokens, rows, threads
SMALL_DECODE, SMALL_PREFILL = 5, 14  # launches of a layer beside its products; in decode two norms, rotation with append, attention, activation


class Own:
    def __init__(self, folder, chip):
        self.folder, self.chip = folder, chip
        self.has_packed = (folder / "matvec_packed.hsaco").exists()
        self.load = functools.lru_cache(None)(lambda file, kernel: Kernel(folder / f"{file}.hsaco", kernel, chip.architecture))

    def parts(self, name, rows, columns):
        row_bytes = columns // BLOCK[name][0] * BLOCK[name][1]
        return PART.pack(0, 0, 0, rows, row_bytes, rows, 0, 0, 1.0) + bytes(3 * PART.size)

    @functools.lru_cache(None)
    def matvec(self, name, rows, columns):
        kernel = self.load("matvec", f"matvec_{'coded' if name in CODED else name}_1")
        wave = kernel.timing.wave
        chunk = min(-(-columns // 256) * 256, 256 * wave)
        arguments = self.parts(name, rows, columns) + struct.pack("<QqiiiiiI", 0, columns, 1, columns, 1, chunk, 1, TYPES[name])
        pointers = [(0, Buffer()), (16, Buffer()), (4 * PART.size, Buffer())]
        groups = -(-rows // (256 // wave * WAVE_ROWS[name]))
        return predict(kernel, Launch(kernel, (groups, 1, 1), (256, 1, 1), [arguments], 4 * chunk, pointers), self.chip)

    @functools.lru_cache(None)
    def tile(self, name, columns, large):
        kernel = self.load("matmul", f"matmul_{'coded' if name in CODED else name}_{'large' if large else 'small'}")
        return self.tile_filling(kernel, TILE[large], columns // BLOCK[name][0] * BLOCK[name][1], columns, TYPES[name])

    def tile_filling(self, kernel, size, weight_stride, columns, code):
        """`size`: tokens, rows and threads of a tile; `weight_stride`: bytes from a row of the weight to the next, or from a tile of packed rows."""
        rows, tokens = 4096, 512
        arguments = PART.pack(0, 0, 0, rows, weight_stride, rows, 0, 0, 1.0) + bytes(3 * PART.size) + \
            struct.pack("<QQiiiiIi", 0, 0, 1, columns, columns, tokens, code, 0)
        pointers = [(0, Buffer()), (16, Buffer()), (4 * PART.size, Buffer()), (4 * PART.size + 8, Buffer())]
        launch = Launch(kernel, (tokens // size[0], rows // size[1], 1), (size[2], 1, 1), [arguments], 0, pointers)
        return filling(kernel, launch, self.chip)

    def matmul(self, name, rows, columns, tokens, least=False):
        large = tokens > 32 and tiles_of((rows,), tokens, TILE[True]) >= self.chip.groups
        return along_columns(lambda part: self.tile(name, part, large), tiles_of((rows,), tokens, TILE[large]), columns, least)

    def attention(self, model, rows, keys, decode):
        """One sequence: `rows` queries that see `keys` keys each, of pages of 64 tokens in their order, f16."""
        group = 4 if model.heads // model.kv_heads >= 4 else 1
        if model.heads // model.kv_heads >= 8 and model.head_dim > 128:
            group = 8
        if decode:
            kernel = self.load("paged", f"paged_f16_{128 if model.head_dim <= 128 else 256}_{group}")
        elif model.head_dim in (192, 256, 512):
            kernel = self.load("attention_prefill", f"prefill_{model.head_dim}_f16")
        else:
            kernel = self.load("flash", f"flash_{model.head_dim}_f16")
        blocks = -(-keys // 64)
        table = Buffer(np.arange(blocks, dtype=np.int32))
        offsets, lengths = Buffer(np.array([0, rows], np.int32)), Buffer(np.array([keys], np.int32))
        q, out, k, v, sums, states, counters = (Buffer() for _ in range(7))
        row, head = model.kv_heads * model.head_dim, model.head_dim
        wide = model.heads * model.head_dim
        tiles = -(-model.heads // model.kv_heads // group)
        arguments = struct.pack("<QQ QQQqqqqiiii QQQQQqq IiiiiiiifffI QQQ iiii", 0, 0, 0, 0, 0, 64 * row, 0, row, head, blocks, 6, 0, 0, 0, 0, 0, 0, 0, wide, 0,
                                0, 0, 1, model.heads, model.kv_heads, head, 0, 0, 0.1275, 0.0, 0.0, 0, 0, 0, 0, 0, tiles, 1 if decode else 0, head)
        pointers = [(0, q), (8, out), (16, k), (24, v), (32, table), (88, offsets), (96, lengths), (192, sums), (200, states), (208, counters)]
        if decode:
            pieces = -(-keys // (-(-(-(-keys // 256)) // 32) * 256))
            grid = (1, model.kv_heads * tiles, pieces)
        else:
            grid = (-(-rows // (32 if model.head_dim > 256 else 64)), model.heads, 1)
        # The only branch of prompt attention on computed values skips the rescaling of its sums. The first tiles of keys
        # need the rescaling, and later tiles hardly ever.
        threads = 4 * kernel.timing.wave if decode else kernel.metadata[".max_flat_workgroup_size"]
        return predict(kernel, Launch(kernel, grid, (threads, 1, 1), [arguments], 0, pointers, not decode), self.chip)

    def decode_us(self, model, launch_us, keys=128):
        total, launches = 0.0, 4
        for name, rows, columns, count, what in [*model.products(), model.output()]:
            total += count * self.matvec(name, rows, columns).microseconds
        # Q, K and V share a launch, and so do gate and up. Weights of another format add a launch.
        launches += model.layers * (4 + SMALL_DECODE) + (model.layers // 2 if model.mixed else 0)
        total += model.layers * self.attention(model, 1, keys, True).microseconds
        return total + launches * launch_us

    def prefill_products(self, model, tokens, least):
        """(what, how many of them, microseconds of each)"""
        return [(f"{what}, {name}", count, self.matmul(name, rows, columns, tokens, least)) for name, rows, columns, count, what in model.products()]

    def prefill_steps(self, model, tokens, launch_us, least=False, products=None):
        """The launches of a prompt as `prefill_products`. `least`: with products that take their busiest pipe's time."""
        wide = 4 * tokens * (9 * model.hidden + 5 * model.heads * model.head_dim + 4 * model.ffn)
        return [*(products or self.prefill_products)(model, tokens, least),
                ("attention", model.layers, self.attention(model, tokens, tokens // 2 + 32, False).microseconds),
                ("norms, conversions, rotation, activation: bytes", model.layers, stream_us(self.chip, wide)),
                ("from a launch to the next", model.layers * (4 + SMALL_PREFILL), launch_us),
                ("output, one row", 1, self.matvec(*model.output()[:3]).microseconds)]

    def prefill_us(self, *arguments, **named):
        return sum(count * each for _, count, each in self.prefill_steps(*arguments, **named))


def tiles_of(rows, tokens, size):
    return -(-tokens // size[0]) * sum(-(-of_part // size[1]) for of_part in rows)


def along_columns(tile, groups, columns, least):
    """Microseconds, from `tile` (columns -> Filling) at 512 and 1024 columns: the loop over them is straight. `least`: of the busiest pipe alone."""
    short, long = ((found.least if least else found.microseconds)(groups) for found in map(tile, (512, 1024)))
    return long + (long - short) / 512 * (columns - 1024)
