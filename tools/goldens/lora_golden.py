#!/usr/bin/env python3
"""Makes LoRA adapters for models of model_golden.py, and the logits that PEFT computes with them. Those of experts, which
transformers has in one parameter, are added to the weights instead.

The models are those whose files are committed; the script checks that it has built the same ones. Both matrices of each pair are
random (a fresh adapter's B is zero) and large enough that a missing pair moves the logits by much more than the tests allow. The
files are as llama.cpp's convert_lora_to_gguf.py writes them.

    golden/bin/pip install torch transformers numpy peft
    golden/bin/python tools/goldens/lora_golden.py tests/golden/models [NAME...]
"""
import pathlib
import struct
import sys

import numpy
import peft
import torch

import model_golden as golden
from model_golden_parts import COUNTS, F32, STRING, neighbours, seed_of, write_gguf

ATTENTION = ["q_proj", "k_proj", "v_proj", "o_proj"]
# adapter: (model, modules, rank, alpha, ranks of single modules)
ADAPTERS = {
    "llama-gqa4": ("llama-gqa4", [*ATTENTION, "gate_proj", "up_proj", "down_proj", "lm_head"], 4, 6.0, {"v_proj": 7}),
    "llama-gqa4-b": ("llama-gqa4", ["q_proj", "down_proj"], 2, 4.0, {}),
    "phi3": ("phi3", ["qkv_proj", "o_proj", "gate_up_proj", "down_proj"], 5, 10.0, {}),
    "llama-gqa4-embd": ("llama-gqa4", ["embed_tokens", "q_proj"], 4, 6.0, {"embed_tokens": 5}),
    "gemma2-embd": ("gemma2", ["embed_tokens", "o_proj"], 3, 6.0, {}),  # of scaled embeddings; the head has the same tensor
    "gemma2": ("gemma2", [*ATTENTION, "gate_proj", "up_proj", "down_proj"], 3, 3.0, {}),
    "deepseek-v2": ("deepseek-v2", ["q_a_proj", "q_b_proj", "kv_a_proj_with_mqa", "o_proj"], 4, 8.0, {}),
    "bailingmoe2": ("bailingmoe2", ["q_proj", "k_proj", "v_proj"], 3, 6.0, {"k_proj": 2}),  # the file has them in one tensor
    "qwen3moe": ("qwen3moe", ATTENTION, 4, 8.0, {}),
    "llama-gqa4-invoked": ("llama-gqa4", [*ATTENTION, "gate_proj", "up_proj", "down_proj"], 4, 6.0, {}),
}
# adapters that act from tokens of the golden's prompt on: their place and number
INVOKED = {"llama-gqa4-invoked": (21, 3)}
# adapter of experts: (model, ranks of the chosen and the shared ones, alpha)
EXPERTS = {
    "qwen3moe-experts": ("qwen3moe", 3, 0, 6.0),
    "qwen2moe-experts": ("qwen2moe-equal", 3, 5, 4.0),  # a GPU has the shared expert behind the others
    "nemotron-experts": ("nemotron_h_moe-latent", 4, 2, 4.0),  # without gates, on latents; a dense shared part
}


def pairs_of(architecture, config, model):
    """The tensors of the file: A as it is, rows of B as those of the weight that it changes."""
    for name, parameter in model.named_parameters():
        if ".lora_" not in name:
            continue
        module, part = name.removeprefix("base_model.model.").split(".lora_")
        letter = part.removeprefix("embedding_")[0].lower()
        values = parameter.detach().numpy()
        if part.startswith("embedding_A"):
            values = numpy.ascontiguousarray(values.T)  # a row for each token
        target = golden.gguf_name(architecture, module + ".weight")
        if letter == "b" and architecture in golden.PERMUTED:
            if ".attn_q." in target:
                values = neighbours(values, config.num_attention_heads)
            if ".attn_k." in target:
                values = neighbours(values, config.num_key_value_heads)
        yield f"{target}.lora_{letter}", values


def known_model(folder, name):
    """The model of a committed file, its configuration, the tokens and the logits without an adapter."""
    architecture, family, own = golden.MODELS[name]
    model, config, generator = golden.build(name, architecture, family, own)
    ids = torch.randint(0, config.vocab_size, (1, golden.TOKENS), generator=generator)
    committed = (folder / f"{name}.logits").read_bytes()
    with torch.no_grad():
        plain = model(ids, use_cache=False).logits[0].numpy()
    known = numpy.frombuffer(committed[8 + 4 * golden.TOKENS:], "<f4").reshape(plain.shape)
    assert numpy.abs(known - plain).max() < 1e-3, f"{name} is not the model of its file"
    return architecture, model, config, ids, plain


def invocation(adapter, ids):
    first, count = INVOKED.get(adapter, (0, 0))
    return ids[0, first:first + count].tolist()


def write(folder, adapter, architecture, alpha, pairs, ids, plain, model):
    with torch.no_grad():
        logits = model(ids, use_cache=False).logits[0].numpy()
    keys = [("general.type", STRING, "adapter"), ("adapter.type", STRING, "lora"),
            ("general.architecture", STRING, architecture), ("general.name", STRING, adapter),
            ("adapter.lora.alpha", F32, alpha)]
    if adapter in INVOKED:
        keys.append(("adapter.alora.invocation_tokens", COUNTS, invocation(adapter, ids)))
    (folder / "lora").mkdir(exist_ok=True)
    write_gguf(folder / "lora" / f"{adapter}.gguf", keys, pairs)
    head = struct.pack("<II", golden.TOKENS, plain.shape[1]) + ids[0].numpy().astype("<i4").tobytes()
    (folder / "lora" / f"{adapter}.logits").write_bytes(head + logits.astype("<f4").tobytes())
    moved = numpy.linalg.norm(logits - plain) / numpy.linalg.norm(plain)
    print(f"{adapter:16} logits moved by {moved:.3f} of their size")


def make(folder, adapter):
    name, modules, rank, alpha, ranks = ADAPTERS[adapter]
    architecture, model, config, ids, plain = known_model(folder, name)
    changed = peft.get_peft_model(model, peft.LoraConfig(
        r=rank, lora_alpha=alpha, target_modules=modules, rank_pattern=ranks, lora_dropout=0.0, task_type="CAUSAL_LM",
        alora_invocation_tokens=invocation(adapter, ids) or None)).eval()
    random = torch.Generator().manual_seed(seed_of("lora/" + adapter))
    for parameter_name, parameter in changed.named_parameters():
        if ".lora_" in parameter_name:
            gain = 0.5 if ".lora_A" in parameter_name else 0.2
            inputs = 1 if "embedding_A" in parameter_name else parameter.shape[1]
            parameter.data.copy_(gain * torch.randn(parameter.shape, generator=random) / inputs ** 0.5)
    write(folder, adapter, architecture, alpha, list(pairs_of(architecture, config, changed)), ids, plain, changed)


def matrices_of_experts(architecture, config, model):
    """The tensors of the file that belong to experts, and the model's own numbers of them."""
    for source, parameter in golden.named_weights(model):
        if "expert" not in source:
            continue
        values = parameter.detach().numpy()
        for target, own in golden.expert_parts(architecture, source, values) or \
                [(golden.gguf_name(architecture, source), values)]:
            if target.endswith(("_exps.weight", "_shexp.weight")) and "gate_inp" not in target:
                yield golden.mamba.dense_name(target, config), own


def make_experts(folder, adapter):
    name, rank, shared_rank, alpha = EXPERTS[adapter]
    architecture, model, config, ids, plain = known_model(folder, name)
    random = numpy.random.default_rng(seed_of("lora/" + adapter))
    pairs = []
    for target, values in matrices_of_experts(architecture, config, model):
        own = shared_rank if "_shexp" in target else rank
        *experts, outputs, inputs = values.shape
        a = (random.standard_normal((*experts, own, inputs)) / inputs ** 0.5).astype(numpy.float32)
        b = (random.standard_normal((*experts, outputs, own)) / own ** 0.5).astype(numpy.float32)
        values += numpy.float32(alpha / own) * (b @ a)
        pairs += [(f"{target}.lora_a", a), (f"{target}.lora_b", b)]
    write(folder, adapter, architecture, alpha, pairs, ids, plain, model)


def main():
    folder = pathlib.Path(sys.argv[1])
    for maker, adapters in ((make, ADAPTERS), (make_experts, EXPERTS)):
        for adapter in adapters:
            if adapter in sys.argv[2:] or len(sys.argv) == 2:
                maker(folder, adapter)


if __name__ == "__main__":
    main()
