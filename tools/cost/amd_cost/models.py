"""Shapes of the models that are predicted: the products of a layer, and what else a token's step reads and launches."""
import dataclasses

# Elements and bytes of a block.
BLOCK = {"f32": (1, 4), "f16": (1, 2), "bf16": (1, 2), "q4_0": (32, 18), "q4_1": (32, 20), "q5_0": (32, 22), "q5_1": (32, 24), "q8_0": (32, 34), "q2_k": (256, 84),
         "q3_k": (256, 110), "q4_k": (256, 144), "q5_k": (256, 176), "q6_k": (256, 210), "iq4_nl": (32, 18), "iq4_xs": (256, 136), "iq3_s": (256, 110),
         "iq2_s": (256, 82), "mxfp4": (32, 17), "iq2_xxs": (256, 66), "iq2_xs": (256, 74), "iq3_xxs": (256, 98), "iq1_s": (256, 50), "iq1_m": (256, 56),
         "tq1_0": (256, 54), "tq2_0": (256, 66), "nvfp4": (64, 36)}


@dataclasses.dataclass(frozen=True)
class Model:
    name: str
    layers: int
    hidden: int
    heads: int
    kv_heads: int
    head_dim: int
    ffn: int
    vocabulary: int
    mixed: bool  # Q4_K_M: V and down are Q6_K in half of the layers; otherwise Q4_0. The output is Q6_K.
    head_norms: bool = False

    def products(self):
        """(format, rows, columns, how many of them in the model, what)"""
        base = "q4_k" if self.mixed else "q4_0"
        q, kv, n = self.heads * self.head_dim, self.kv_heads * self.head_dim, self.layers
        plain, better = (n - n // 2, n // 2) if self.mixed else (n, 0)
        found = [(base, q, self.hidden, n, "q"), (base, kv, self.hidden, n, "k"), (base, kv, self.hidden, plain, "v"), ("q6_k", kv, self.hidden, better, "v"),
                 (base, self.hidden, q, n, "o"), (base, self.ffn, self.hidden, 2 * n, "gate, up"), (base, self.hidden, self.ffn, plain, "down"),
                 ("q6_k", self.hidden, self.ffn, better, "down")]
        return [product for product in found if product[3]]

    def output(self):
        return "q6_k", self.vocabulary, self.hidden, 1, "output"

    def weight_bytes(self):
        return sum(rows * columns // BLOCK[name][0] * BLOCK[name][1] * count for name, rows, columns, count, _ in [*self.products(), self.output()])


@dataclasses.dataclass(frozen=True)
class ExpertModel:
    """Layers of experts; each `attention_every`-th has attention with gates of its output, the others a gated delta net. Q4_K_M as llama.cpp mixes it: V and down of
    some layers and the output are Q6_K, the router F32, all else Q4_K."""
    name: str
    layers: int
    attention_every: int
    hidden: int
    heads: int
    kv_heads: int
    head_dim: int
    vocabulary: int
    experts: int
    used: int
    shared: int
    width: int  # of an expert
    key_heads: int  # of a delta net
    value_heads: int
    state_dim: int
    taps: int
    head_norms: bool = True

    def channels(self):
        return (2 * self.key_heads + self.value_heads) * self.state_dim

    def finer_layers(self, attention=False):
        """How many have Q6_K, of all or of those with attention."""
        eighth = self.layers // 8
        finer = [layer for layer in range(self.layers) if layer < eighth or layer >= 7 * self.layers // 8 or (layer - eighth) % 3 == 2]
        return sum(not attention or layer % self.attention_every == self.attention_every - 1 for layer in finer)

    def weights(self):
        """(format, weights that a token reads)"""
        attentions, taken = self.layers // self.attention_every, self.used + self.shared
        nets, values = self.layers - attentions, self.value_heads * self.state_dim
        q, kv, matrix = self.heads * self.head_dim, self.kv_heads * self.head_dim, taken * self.width * self.hidden
        finer, finer_attentions = self.finer_layers(), self.finer_layers(True)
        return [("q4_k", nets * self.hidden * (self.channels() + 2 * values + 2 * self.value_heads)),
                ("q4_k", attentions * self.hidden * (3 * q + 2 * kv) - finer_attentions * kv * self.hidden), ("q6_k", finer_attentions * kv * self.hidden),
                ("q4_k", (3 * self.layers - finer) * matrix), ("q6_k", finer * matrix), ("f32", self.layers * (self.experts + self.shared) * self.hidden),
                ("q6_k", self.vocabulary * self.hidden)]

    def state_bytes(self):
        """Of the delta nets, read and written."""
        nets = self.layers - self.layers // self.attention_every
        return 2 * 4 * nets * (self.value_heads * self.state_dim ** 2 + (self.taps - 1) * self.channels())

    def read_bytes(self):
        return sum(count // BLOCK[name][0] * BLOCK[name][1] for name, count in self.weights()) + self.state_bytes()


MODELS = {model.name: model for model in (
    Model("Llama 2 7B Q4_0", 32, 4096, 32, 32, 128, 11008, 32000, False),
    Model("Llama 3 8B Q4_K_M", 32, 4096, 32, 8, 128, 14336, 128256, True),
    Model("Qwen2.5 7B Q4_K_M", 28, 3584, 28, 4, 128, 18944, 152064, True),
    Model("Qwen3 8B Q4_K_M", 36, 4096, 32, 8, 128, 12288, 151936, True, True),
    Model("Qwen3 4B Q4_K_M", 36, 2560, 32, 8, 128, 9728, 151936, True, True),
    Model("Qwen3 0.6B Q4_K_M", 28, 1024, 16, 8, 128, 3072, 151936, True, True),
)}
EXPERT_MODELS = {model.name: model for model in (
    ExpertModel("Qwen3.6 35B-A3B Q4_K_M", 40, 4, 2048, 16, 2, 256, 248320, 256, 8, 1, 512, 16, 32, 128, 4),
)}
# Attention in every layer; the numbers of a delta net are not used.
CHAINED_EXPERTS = ExpertModel("Qwen3 30B-A3B Q4_K_M", 48, 1, 2048, 32, 4, 128, 151936, 128, 8, 0, 768, 1, 1, 128, 4)
# (model, chip, decode: tokens a second lowest and highest): kyuz0/amd-strix-halo-toolboxes (Q4_K_XL, HIP lowest, Vulkan highest), issue 26220 of ggml-org/llama.cpp.
MEASURED_EXPERTS = (
    ("Qwen3.6 35B-A3B Q4_K_M", "strix-halo", (51.5, 60.4)),
    ("Qwen3.6 35B-A3B Q4_K_M", "r9700", (68.5, 68.5)),
)
# (model, chip, decode: tokens a second lowest and highest, prefill likewise or None, tokens of a prefill's part), as people published them for the HIP
# backend of llama.cpp in 2026: issues 20934 and 26663 and pull request 26284 of ggml-org/llama.cpp, kyuz0/amd-strix-halo-toolboxes, discussion 14640.
MEASURED = (
    ("Llama 2 7B Q4_0", "rx7900xtx", (129, 144), (4000, 4400), 512),
    ("Qwen2.5 7B Q4_K_M", "rx7900xtx", (110, 114), (3800, 4000), 512),
    ("Llama 3 8B Q4_K_M", "rx7900xtx", (105.8, 105.8), (3227, 3227), 512),
    ("Qwen3 8B Q4_K_M", "rx9070xt", (91.1, 91.1), (4199, 4199), 512),
    ("Qwen3 4B Q4_K_M", "rx9070xt", (129.2, 129.2), (6671, 6671), 512),
    ("Llama 2 7B Q4_0", "strix-halo", (50.6, 50.8), (1533, 1545), 512),
    ("Qwen3 8B Q4_K_M", "mi300x", (161, 161), (5839, 5839), 512),
)
# (model, chip): decode and prefill as people published them for the Vulkan backend of llama.cpp: issues 20934 and 26663 (Windows), and of another engine on
# RADV. An owner compares with these.
VULKAN = {
    ("Llama 2 7B Q4_0", "rx7900xtx"): ((167, 177), None),
    ("Qwen3 8B Q4_K_M", "rx9070xt"): ((104.3, 114.9), (4472, 4472)),
    ("Qwen3 4B Q4_K_M", "rx9070xt"): ((174.5, 174.5), None),
}
# What a modelled time of decode may be off by: of kernels that were compared with published figures (many small work-groups), and of those with one
# long-lived group a unit, which nothing was compared with.
BAND, TUNED_BAND = (-0.05, 0.17), (-0.25, 0.10)
# The figure from which a constant of the cost model is taken (the time of a launch). It is not used as a check.
FITTED = ("Qwen3 0.6B Q4_K_M", "rx9070xt", 292.2)
