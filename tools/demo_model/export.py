"""Writes a checkpoint and its tokenizer as a GGUF file: matrices in Q8_0 (or F16), norms in F32."""
import argparse
import json

import torch

import gguf_file
from chat import CONTROL, IM_END, TEMPLATE
from model import Config


def metadata_of(config, tokenizer, file_type):
    vocab = sorted(tokenizer["model"]["vocab"], key=tokenizer["model"]["vocab"].get)
    merges = [m if isinstance(m, str) else " ".join(m) for m in tokenizer["model"]["merges"]]
    return {
        "general.architecture": "llama", "general.name": "ROCmForge demo", "general.license": "apache-2.0",
        "general.type": "model", "general.file_type": file_type, "general.quantization_version": 2,
        "general.alignment": gguf_file.ALIGNMENT,
        "llama.block_count": config.layers, "llama.context_length": config.context,
        "llama.embedding_length": config.hidden, "llama.feed_forward_length": config.ffn,
        "llama.attention.head_count": config.heads, "llama.attention.head_count_kv": config.kv_heads,
        "llama.attention.key_length": config.head_dim, "llama.attention.value_length": config.head_dim,
        "llama.attention.layer_norm_rms_epsilon": config.eps, "llama.rope.dimension_count": config.head_dim,
        "llama.rope.freq_base": config.rope_base, "llama.vocab_size": config.vocab,
        "tokenizer.ggml.model": "gpt2", "tokenizer.ggml.pre": "qwen2", "tokenizer.ggml.tokens": vocab,
        "tokenizer.ggml.token_type": [3 if token in CONTROL else 1 for token in vocab],
        "tokenizer.ggml.merges": merges, "tokenizer.ggml.eos_token_id": vocab.index(IM_END),
        "tokenizer.ggml.padding_token_id": vocab.index(CONTROL[0]), "tokenizer.ggml.add_bos_token": False,
        "tokenizer.chat_template": TEMPLATE,
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--checkpoint", required=True)
    parser.add_argument("--tokenizer", required=True)
    parser.add_argument("--out", required=True)
    parser.add_argument("--type", choices=("q8_0", "f16"), default="q8_0")
    args = parser.parse_args()
    saved = torch.load(args.checkpoint, map_location="cpu")
    config = Config(**saved["config"])
    matrix, file_type = {"q8_0": (gguf_file.TYPE_Q8_0, 7), "f16": (gguf_file.TYPE_F16, 1)}[args.type]
    with open(args.tokenizer, encoding="utf-8") as file:
        metadata = metadata_of(config, json.load(file), file_type)
    if len(metadata["tokenizer.ggml.tokens"]) != config.vocab:
        raise SystemExit("the tokenizer's size is not the model's")
    tensors = {name: (weight.float().numpy(), matrix if weight.dim() == 2 else gguf_file.TYPE_F32)
               for name, weight in saved["model"].items()}
    gguf_file.write(args.out, metadata, tensors)
    print("wrote", args.out)


if __name__ == "__main__":
    main()
