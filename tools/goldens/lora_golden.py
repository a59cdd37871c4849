#!/usr/bin/env python3
"""Makes LoRA adapters for models of model_golden.py, and the logits that PEFT computes with them.

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
from model_golden_parts import F32, STRING, neighbours, seed_of, write_gguf

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


def make(folder, adapter):
    name, modules, rank, alpha, ranks = ADAPTERS[adapter]
    architecture, family, own = golden.MODELS[name]
    model, config, generator = golden.build(name, architecture, family, own)
    ids = torch.randint(0, config.vocab_size, (1, golden.TOKENS), generator=generator)
    committed = (folder / f"{name}.logits").read_bytes()
    with torch.no_grad():
        plain = model(ids, use_cache=False).logits[0].numpy()
    known = numpy.frombuffer(committed[8 + 4 * golden.TOKENS:], "<f4").reshape(plain.shape)
    assert numpy.abs(known - plain).max() < 1e-3, f"{name} is not the model of its file"

    changed = peft.get_peft_model(model, peft.LoraConfig(
        r=rank, lora_alpha=alpha, target_modules=modules, rank_pattern=ranks, lora_dropout=0.0)).eval()
    random = torch.Generator().manual_seed(seed_of("lora/" + adapter))
    for parameter_name, parameter in changed.named_parameters():
        if ".lora_" in parameter_name:
            gain = 0.5 if ".lora_A" in parameter_name else 0.2
            inputs = 1 if "embedding_A" in parameter_name else parameter.shape[1]
            parameter.data.copy_(gain * torch.randn(parameter.shape, generator=random) / inputs ** 0.5)
    with torch.no_grad():
        logits = changed(ids, use_cache=False).logits[0].numpy()
    keys = [("general.type", STRING, "adapter"), ("adapter.type", STRING, "lora"),
            ("general.architecture", STRING, architecture), ("general.name", STRING, adapter),
            ("adapter.lora.alpha", F32, alpha)]
    (folder / "lora").mkdir(exist_ok=True)
    write_gguf(folder / "lora" / f"{adapter}.gguf", keys, list(pairs_of(architecture, config, changed)))
    head = struct.pack("<II", golden.TOKENS, config.vocab_size) + ids[0].numpy().astype("<i4").tobytes()
    (folder / "lora" / f"{adapter}.logits").write_bytes(head + logits.astype("<f4").tobytes())
    moved = numpy.linalg.norm(logits - plain) / numpy.linalg.norm(plain)
    print(f"{adapter:15} logits moved by {moved:.3f} of their size")


def main():
    folder = pathlib.Path(sys.argv[1])
    for adapter in ADAPTERS:
        if adapter in sys.argv[2:] or len(sys.argv) == 2:
            make(folder, adapter)


if __name__ == "__main__":
    main()
