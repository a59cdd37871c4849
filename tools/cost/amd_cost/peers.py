"""Predicted beside published: the decode and prefill of llama.cpp's HIP backend, modelled with ik_llama.cpp's kernels of the same family."""
import functools

from .chips import CHIPS
from .cost import filling, predict
from .kernel import Buffer, Kernel, Launch
from .models import BLOCK, FITTED, MEASURED, MODELS

TYPES = {"q4_0": 2, "q4_k": 12, "q6_k": 14}
# int32s of a tile of 128 rows in shared memory (quants, scales), as the kernels lay them out, and bytes of 64 columns of activations.
MMQ_TILE = {"q4_0": 128 * 33 + 128 * 8 + 32, "q4_k": 128 * 33 + 128 + 128 * 4 + 16, "q6_k": 128 * 65 + 128 + 4 + 128 * 4 + 16}
MMQ_COLUMNS = 64 * 144
SMALL_DECODE, SMALL_PREFILL = 14, 20  # launches of a layer beside its products: norms, quantising, RoPE, cache, attention, sums (two more with norms of heads)


class Peer:
    """Predicts ik_llama.cpp's products on a chip; `objects` are those of peers_build."""

    def __init__(self, objects, chip):
        self.objects, self.chip = objects, chip
        self.load = functools.lru_cache(None)(lambda name, kernel: Kernel(objects[name], kernel, chip.architecture))

    @functools.lru_cache(None)
    def matvec(self, name, rows, columns):
        waves = 4 if self.chip.architecture.startswith("gfx9") else 1
        kernel = self.load(f"matvec_{name}", f"mul_mat_vec_qIL9ggml_type{TYPES[name]}ELi1ELi{waves}E")
        launch = Launch(kernel, (rows, 1, 1), (32, waves, 1), [Buffer(), Buffer(), Buffer(), None, None, columns, rows, columns, rows, 0, 0, 0, 0, 0])
        return predict(kernel, launch, self.chip)

    @functools.lru_cache(None)
    def tile(self, name, columns):
        """Filling of units with tiles of 128 rows and 64 tokens over `columns`."""
        kernel = self.load(f"mmq_{name}", f"mul_mat_qIL9ggml_type{TYPES[name]}E")
        rows, tokens = 4096, 512
        arguments = [Buffer(), Buffer(), Buffer(), None, columns, rows, 4096 // BLOCK[name][0], columns, tokens, tokens, rows]
        return filling(kernel, Launch(kernel, (rows // 128, tokens // 64, 1), (32, 8, 1), arguments, 4 * MMQ_TILE[name] + MMQ_COLUMNS), self.chip)

    def matmul(self, name, rows, columns, tokens):
        """Microseconds: from 256 and 512 columns, as the loop over them is straight."""
        groups = -(-rows // 128) * -(-tokens // 64)
        short, long = (self.tile(name, part).microseconds(groups) for part in (256, 512))
        return long + (long - short) / 256 * (columns - 512)


def stream_us(chip, size):
    """Bytes that are read or written once."""
    rate = chip.memory_gbs * chip.memory_share if size > chip.big_cache_bytes / 2 else chip.l2_gbs / 2
    return size / rate / 1000


def decode_us(peer, model, launch_us):
    total = 0.0
    for name, rows, columns, count, _ in [*model.products(), model.output()]:
        total += count * peer.matvec(name, rows, columns).microseconds
    launches = sum(count for *_, count, _ in model.products()) + model.layers * (SMALL_DECODE + 2 * model.head_norms) + 4
    return total + launches * launch_us


def prefill_us(peer, model, tokens, launch_us):
    total, chip = 0.0, peer.chip
    for name, rows, columns, count, _ in model.products():
        total += count * peer.matmul(name, rows, columns, tokens)
    total += peer.matvec(*model.output()[:3]).microseconds
    # Besides its products, a layer reads and writes its rows several times, and its attention runs a product's operations at
    # a third of the matrix peak.
    wide = 4 * tokens * (9 * model.hidden + 5 * model.heads * model.head_dim + 4 * model.ffn)
    total += model.layers * stream_us(chip, wide)
    total += model.layers * 2 * tokens * tokens * model.heads * model.head_dim / (chip.matrix_f16 / 3) / 1e6
    launches = sum(count for *_, count, _ in model.products()) + model.layers * (SMALL_PREFILL + 2 * model.head_norms)
    return total + launches * launch_us


def fitted_launch_us(peer):
    """The time of a launch with which the one fitted figure comes out."""
    model, _, measured = MODELS[FITTED[0]], FITTED[1], FITTED[2]
    empty, with_launches = decode_us(peer, model, 0.0), decode_us(peer, model, 1.0)
    return (1e6 / measured - empty) / (with_launches - empty)


def rows(objects_of):
    """(model, chip, what, measured low, high, modelled, ratio to the middle of the measured) of every published figure."""
    for name, chip_name, decode, prefill, tokens in MEASURED:
        chip, model = CHIPS[chip_name], MODELS[name]
        peer = Peer(objects_of(chip.architecture), chip)
        for what, figures, microseconds in (("decode", decode, lambda: decode_us(peer, model, chip.launch_us)),
                                            ("prefill", prefill, lambda: prefill_us(peer, model, tokens, chip.launch_us) / tokens)):
            if figures:
                modelled = 1e6 / microseconds()
                yield name, chip_name, what, *figures, modelled, modelled / (sum(figures) / 2)


def report(objects_of):
    lines = ["| model | chip | | published tok/s | modelled | modelled / published |", "|---|---|---|---:|---:|---:|"]
    ratios = {}
    for name, chip, what, low, high, modelled, ratio in rows(objects_of):
        ratios.setdefault(what, []).append(ratio)
        figures = f"{low:g}" if low == high else f"{low:g} to {high:g}"
        lines.append(f"| {name} | {chip} | {what} | {figures} | {modelled:.4g} | {ratio:.2f} |")
    for what, found in ratios.items():
        lines.append(f"\n{what}: {min(found) - 1:+.0%} to {max(found) - 1:+.0%} of what was published ({len(found)} figures)")
    return "\n".join(lines)

