#!/usr/bin/env python3
"""Writes tests/golden/models/vision/qwen3vl-chat.gguf: the tiny qwen3vl.gguf beside it with a vocabulary of printable characters and
the marks of images, and a chat template that writes them. Needs gguf (PyPI)."""
import pathlib

import gguf

FOLDER = pathlib.Path(__file__).resolve().parents[2] / "tests/golden/models/vision"
TEMPLATE = ("{% for m in messages %}{% if m.content is string %}{{ m.content }}{% else %}{% for p in m.content %}"
            "{% if p.type == 'image' %}<|vision_start|><|image_pad|><|vision_end|>{% else %}{{ p.text }}{% endif %}"
            "{% endfor %}{% endif %}{% endfor %}")
VOCABULARY, CONTROL, NORMAL = 112, 3, 1


def vocabulary():
    tokens = ["Ġ"] + [chr(code) for code in range(33, 127)] + ["th"]
    tokens += [f"<unused{i}>" for i in range(len(tokens), 101)]
    tokens += ["<|vision_start|>", "<|vision_end|>", "<|image_pad|>", "<|im_end|>"]
    return tokens + [f"<unused{i}>" for i in range(len(tokens), VOCABULARY)]


def main():
    source = gguf.GGUFReader(FOLDER / "qwen3vl.gguf")
    writer = gguf.GGUFWriter(FOLDER / "qwen3vl-chat.gguf", "qwen3vl")
    for name, field in source.fields.items():
        if not name.startswith("GGUF.") and name not in ("general.architecture", "tokenizer.ggml.model"):
            if field.types[0] == gguf.GGUFValueType.ARRAY:
                writer.add_array(name, field.contents())
            else:
                writer.add_key_value(name, field.contents(), field.types[0])
    tokens = vocabulary()
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("qwen2")
    writer.add_token_list(tokens)
    writer.add_token_types([CONTROL if len(token) > 2 else NORMAL for token in tokens])
    writer.add_token_merges(["t h"])
    writer.add_eos_token_id(tokens.index("<|im_end|>"))
    writer.add_chat_template(TEMPLATE)
    for tensor in source.tensors:
        writer.add_tensor(tensor.name, tensor.data, raw_dtype=tensor.tensor_type)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


if __name__ == "__main__":
    main()
