#!/usr/bin/env python3
"""Writes tests/golden/models/vision/qwen3vl-chat.gguf and audio/qwen2vl-chat.gguf: the tiny models qwen3vl.gguf and qwen2vl.gguf of
vision with a vocabulary of printable characters and the marks of images or recordings, and a chat template that writes them. Needs
gguf (PyPI)."""
import pathlib

import gguf

FOLDER = pathlib.Path(__file__).resolve().parents[2] / "tests/golden/models"
TEMPLATE = ("{% for m in messages %}{% if m.content is string %}{{ m.content }}{% else %}{% for p in m.content %}"
            "{% if p.type == 'KIND' %}MARKS{% else %}{{ p.text }}{% endif %}"
            "{% endfor %}{% endif %}{% endfor %}")
# kind of part, model, the marks before and behind it and of it
FILES = [("image", "qwen3vl", "vision", ["<|vision_start|>", "<|vision_end|>", "<|image_pad|>"]),
         ("audio", "qwen2vl", "audio", ["<|audio_bos|>", "<|audio_eos|>", "<|AUDIO|>"])]
VOCABULARY, CONTROL, NORMAL = 112, 3, 1


def vocabulary(marks):
    tokens = ["Ġ"] + [chr(code) for code in range(33, 127)] + ["th"]
    tokens += [f"<unused{i}>" for i in range(len(tokens), 101)]
    tokens += [*marks, "<|im_end|>"]
    return tokens + [f"<unused{i}>" for i in range(len(tokens), VOCABULARY)]


def write(kind, name, folder, marks):
    source = gguf.GGUFReader(FOLDER / f"vision/{name}.gguf")
    writer = gguf.GGUFWriter(FOLDER / folder / f"{name}-chat.gguf", name)
    for name, field in source.fields.items():
        if not name.startswith("GGUF.") and name not in ("general.architecture", "tokenizer.ggml.model"):
            if field.types[0] == gguf.GGUFValueType.ARRAY:
                writer.add_array(name, field.contents())
            else:
                writer.add_key_value(name, field.contents(), field.types[0])
    tokens = vocabulary(marks)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("qwen2")
    writer.add_token_list(tokens)
    writer.add_token_types([CONTROL if len(token) > 2 else NORMAL for token in tokens])
    writer.add_token_merges(["t h"])
    writer.add_eos_token_id(tokens.index("<|im_end|>"))
    writer.add_chat_template(TEMPLATE.replace("KIND", kind).replace("MARKS", marks[0] + marks[2] + marks[1]))
    for tensor in source.tensors:
        writer.add_tensor(tensor.name, tensor.data, raw_dtype=tensor.tensor_type)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def main():
    for file in FILES:
        write(*file)


if __name__ == "__main__":
    main()
