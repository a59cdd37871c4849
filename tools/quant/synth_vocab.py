"""A made-up vocabulary for files with random weights: byte-level BPE over words of small letters, as many tokens as asked."""
import itertools
import string
import struct

import gguf_io

NORMAL, CONTROL, BOOL = 1, 3, 7
CONTROLS = {"<|begin_of_text|>": "bos", "<|end_of_text|>": "eos", "<|eot_id|>": "eot", "<|start_header_id|>": None,
            "<|end_header_id|>": None}
CHAT_TEMPLATE = ("{{ bos_token }}{% for message in messages %}<|start_header_id|>{{ message.role }}<|end_header_id|>\n\n"
                 "{{ message.content }}<|eot_id|>{% endfor %}"
                 "{% if add_generation_prompt %}<|start_header_id|>assistant<|end_header_id|>\n\n{% endif %}")


def byte_texts():
    """What stands for each byte: printable ones for themselves, the others, in order, for U+0100 and following."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = itertools.count(0x100)
    return [chr(byte) if byte in printable else chr(next(others)) for byte in range(256)]


def words():
    """Pairs of a word, or a space, and one more letter: (start, letter), every start before what goes on from it."""
    starts = [byte_texts()[ord(" ")], *string.ascii_lowercase]
    while True:
        longer = []
        for start in starts:
            for letter in string.ascii_lowercase:
                yield start, letter
                longer.append(start + letter)
        starts = longer


def strings(values):
    return struct.pack("<IIQ", gguf_io.ARRAY, gguf_io.STRING, len(values)) + b"".join(map(gguf_io.text, values))


def integers(values):
    return struct.pack(f"<IIQ{len(values)}I", gguf_io.ARRAY, gguf_io.U32, len(values), *values)


def metadata(size, pre):
    """The tokenizer's keys. `pre` names the rules that cut a text into words."""
    pairs = list(itertools.islice(words(), size - 256 - len(CONTROLS)))
    tokens = byte_texts() + [start + letter for start, letter in pairs] + list(CONTROLS)
    first_control = size - len(CONTROLS)
    entries = {
        "model": gguf_io.value(gguf_io.STRING, "gpt2"),
        "pre": gguf_io.value(gguf_io.STRING, pre),
        "tokens": strings(tokens),
        "token_type": integers([NORMAL] * first_control + [CONTROL] * len(CONTROLS)),
        "merges": strings([f"{start} {letter}" for start, letter in pairs]),
        "add_bos_token": gguf_io.value(BOOL, True),
    }
    for index, name in enumerate(CONTROLS.values()):
        if name:
            entries[f"{name}_token_id"] = gguf_io.value(gguf_io.U32, first_control + index)
    keys = {f"tokenizer.ggml.{key}": raw for key, raw in entries.items()}
    return keys | {"tokenizer.chat_template": gguf_io.value(gguf_io.STRING, CHAT_TEMPLATE)}
