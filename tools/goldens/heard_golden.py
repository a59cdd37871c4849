#!/usr/bin/env python3
"""Writes what text models must give behind recordings: tests/golden/models/audio/NAME.heard, and for qwen2a the text model.

    python -m venv golden && golden/bin/pip install torch torchvision transformers numpy pillow gguf soundfile
    golden/bin/python tools/goldens/heard_golden.py tests/golden/models

The rows of recordings and images are those that audio_golden.py and vision_golden.py have written; a text model of transformers
takes them in the place of embeddings. The positions of qwen2.5o, whose prompt has an image between recordings, are those that
transformers gives Qwen2.5-Omni. NAME.heard, little-endian: u32 tokens, vocabulary, i32 tokens, f32 logits of the last one.
"""
import pathlib
import struct
import sys
import types

import numpy
import torch
from transformers.models.qwen2_5_omni import modeling_qwen2_5_omni

import model_golden
import vision_golden
from model_golden_parts import STRING, seed_of, write_gguf

HEAR, HEARD, SOUND = 105, 106, 107  # tokens around a recording, and of it
RECORDINGS = (1, 2)  # of NAME.rows


def read_rows(path):
    """(samples, rows) of each recording."""
    data = path.read_bytes()
    recordings, width = struct.unpack_from("<II", data)
    at, found = 8, []
    for _ in range(recordings):
        _, samples, rows = struct.unpack_from("<III", data, at)
        values = numpy.frombuffer(data, "<f4", rows * width, at + 12)
        found.append((samples, torch.tensor(values.reshape(rows, width))))
        at += 12 + 4 * rows * width
    return found


def read_image(path):
    """(columns, lines, rows) of the first image."""
    data = path.read_bytes()
    width = struct.unpack_from("<IIII", data)[3]
    wide, high, columns, lines, pixels, rows = struct.unpack_from("<IIIIII", data, 16)
    at = 40 + (3 * wide * high + 3) // 4 * 4 + 4 * pixels
    return columns, lines, torch.tensor(numpy.frombuffer(data, "<f4", rows * width, at).reshape(rows, width))


def text(length, generator):
    return torch.randint(4, 100, (length,), generator=generator).tolist()


def write(path, ids, logits):
    path.write_bytes(struct.pack("<II", len(ids), logits.shape[0]) + numpy.array(ids, "<i4").tobytes() + logits.numpy().astype("<f4").tobytes())
    print(f"{path.name:15} {len(ids)} tokens, logits spread {logits.std():.2f}")


def run(model, ids, marks, rows, **positions):
    states = model.get_input_embeddings()(torch.tensor([ids]))
    states[0, [i for i, token in enumerate(ids) if token in marks]] = torch.cat(rows)
    return model(inputs_embeds=states, use_cache=False, **positions).logits[0, -1]


def qwen2a(folder):
    own = {**model_golden.SMALL, "num_key_value_heads": 2, "rms_norm_eps": 1e-6, "rope_parameters": model_golden.rope(10000.0)}
    model, config, generator = model_golden.build("audio/qwen2a-text", "qwen2", "Qwen2", own)
    sounds = [read_rows(folder / "audio/qwen2a.rows")[i][1] for i in RECORDINGS]
    ids = text(5, generator)
    for rows in sounds:
        ids += [HEAR, *[SOUND] * len(rows), HEARD, *text(4, generator)]
    write(folder / "audio/qwen2a.heard", ids, run(model, ids, {SOUND}, sounds))
    pairs = [*model_golden.metadata("qwen2", "qwen2", config), ("tokenizer.ggml.model", STRING, "none")]
    write_gguf(folder / "audio/qwen2a.gguf", pairs, list(model_golden.tensors("qwen2", "qwen2", config, model)))


def omni(folder):
    model, _ = vision_golden.build("qwen25vl")
    generator = torch.Generator().manual_seed(seed_of("audio/omni-prompt"))
    sounds = [read_rows(folder / "audio/qwen2.5o.rows")[i] for i in RECORDINGS]
    columns, lines, image = read_image(folder / "vision/qwen25vl.images")
    ids = text(5, generator)
    ids += [HEAR, *[SOUND] * len(sounds[0][1]), HEARD, *text(4, generator)]
    ids += [vision_golden.BEFORE, *[vision_golden.PAD] * len(image), vision_golden.AFTER, *text(4, generator)]
    ids += [HEAR, *[SOUND] * len(sounds[1][1]), HEARD, *text(4, generator)]
    kind = modeling_qwen2_5_omni.Qwen2_5OmniPreTrainedModelForConditionalGeneration
    names = types.SimpleNamespace(image_token_id=vision_golden.PAD, video_token_id=110, audio_token_id=SOUND,
                                  vision_start_token_id=vision_golden.BEFORE, audio_start_token_id=HEAR,
                                  position_id_per_seconds=25, seconds_per_chunk=2)
    itself = types.SimpleNamespace(config=names, spatial_merge_size=2)
    itself.get_llm_pos_ids_for_vision = types.MethodType(kind.get_llm_pos_ids_for_vision, itself)
    positions, _ = kind.get_rope_index(
        itself, torch.tensor([ids]), image_grid_thw=torch.tensor([[1, 2 * lines, 2 * columns]]),
        attention_mask=torch.ones(1, len(ids)), audio_seqlens=torch.tensor([-(-samples // 160) for samples, _ in sounds]))
    rows = [sounds[0][1], image, sounds[1][1]]
    write(folder / "audio/qwen2.5o.heard", ids, run(model, ids, {SOUND, vision_golden.PAD}, rows, position_ids=positions.long()))


def main():
    folder = pathlib.Path(sys.argv[1])
    with torch.no_grad():
        qwen2a(folder)
        omni(folder)


if __name__ == "__main__":
    main()
