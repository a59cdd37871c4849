#!/usr/bin/env python3
"""Makes the tiny audio encoders of tests/golden/models/audio, and the rows that they must give.

    python -m venv golden && golden/bin/pip install torch transformers numpy gguf soundfile
    golden/bin/python tools/goldens/audio_golden.py CONVERTER tests/golden/models/audio [NAME...]

Each is the real architecture of Hugging Face transformers with random weights, run in f32, written to mmproj-NAME.gguf by
llama.cpp's own CONVERTER (convert_hf_to_gguf.py). transformers has no class for Ultravox: its encoder is that of Qwen2-Audio
without the means, and its projector is written here as its authors publish it. NAME.rows, little-endian: u32 recordings, width
of a row; for each recording u32 seed, samples, rows (of sound_golden.signal), f32 rows.
"""
import json
import math
import pathlib
import struct
import subprocess
import sys
import tempfile

import safetensors.torch
import torch
import transformers
from torch.nn import functional
from transformers.models.qwen2_5_omni import modeling_qwen2_5_omni
from transformers.models.qwen2_audio import modeling_qwen2_audio
from transformers.models.voxtral import modeling_voxtral

from model_golden_parts import seed_of
from sound_golden import signal

HIDDEN, TEXT, POSITIONS = 16, 32, 32
# The converter knows no convolution 2 of an encoder with fewer layers.
SIZES = {"d_model": HIDDEN, "encoder_layers": 3, "encoder_attention_heads": 2, "encoder_ffn_dim": 24, "num_mel_bins": 80}
LONG = 2 * POSITIONS * 160


def spread(module, generator):
    """Random weights with which every part of the encoder matters."""
    for name, weight in module.named_parameters():
        if weight.dim() == 1 and name.endswith("weight"):
            values = 0.5 + torch.rand(weight.shape, generator=generator)
        elif weight.dim() == 1 or "embed_positions" in name:
            values = 0.5 * torch.randn(weight.shape, generator=generator)
        else:
            values = 1.2 / math.sqrt(math.prod(weight.shape[1:])) * torch.randn(weight.shape, generator=generator)
        if "conv" in name and weight.dim() > 1:  # the converter stores it as F16
            values = values.half().float()
        weight.data.copy_(values)


class UltravoxProjector(torch.nn.Module):
    """StackAudioFrames and UltravoxProjector of version 0.5."""

    def __init__(self, stack, width):
        super().__init__()
        self.stack = stack
        self.ln_pre = torch.nn.RMSNorm(HIDDEN * stack, 1e-6)
        self.linear_1 = torch.nn.Linear(HIDDEN * stack, width, bias=False)
        self.ln_mid = torch.nn.RMSNorm(width // 2, 1e-6)
        self.linear_2 = torch.nn.Linear(width // 2, TEXT, bias=False)

    def forward(self, states):
        states = functional.pad(states, (0, 0, 0, -states.shape[1] % self.stack))
        states = states.reshape(states.shape[0], -1, HIDDEN * self.stack)
        value, gate = self.linear_1(self.ln_pre(states)).chunk(2, dim=-1)
        return self.linear_2(self.ln_mid(functional.silu(gate) * value))


def masked(encoder, piece, frames):
    """States of a piece of which so many frames are heard; and how many of them count."""
    states = (frames + 1) // 2
    mask = torch.zeros(1, 1, POSITIONS, POSITIONS)
    mask[..., states:] = -torch.inf
    return encoder(piece, attention_mask=mask).last_hidden_state, states


def qwen2_rows(encoder, projector, mel, frames):
    rows = []
    for begin in range(0, frames, 2 * POSITIONS):
        states, count = masked(encoder, mel[..., begin:begin + 2 * POSITIONS], min(frames - begin, 2 * POSITIONS))
        rows.append(projector(states)[0, :count // 2])
    return torch.cat(rows)


def ultravox_rows(encoder, projector, mel, frames):
    rows = []
    for begin in range(0, frames, 2 * POSITIONS):
        states, count = masked(encoder, mel[..., begin:begin + 2 * POSITIONS], min(frames - begin, 2 * POSITIONS))
        rows.append(projector(states[:, :count])[0])
    return torch.cat(rows)


def voxtral_rows(encoder, projector, mel, frames):
    pieces = -(-frames // (2 * POSITIONS))
    whole = mel[0, :, :pieces * 2 * POSITIONS].reshape(80, pieces, -1).transpose(0, 1)
    return projector(encoder(whole).last_hidden_state.reshape(-1, 4 * HIDDEN))


def omni_rows(encoder, _, mel, frames):
    return encoder(mel[0, :, :frames], feature_lens=torch.tensor([frames])).last_hidden_state


def qwen2():
    config = transformers.Qwen2AudioConfig(audio_config={**SIZES, "max_source_positions": POSITIONS},
                                           text_config={"hidden_size": TEXT})
    config.audio_config._attn_implementation = "eager"
    return (config, modeling_qwen2_audio.Qwen2AudioEncoder(config.audio_config),
            modeling_qwen2_audio.Qwen2AudioMultiModalProjector(config), qwen2_rows)


def ultravox():
    _, encoder, _, _ = qwen2()
    encoder.avg_pooler = torch.nn.Identity()
    config = {"stack_factor": 3, "hidden_size": TEXT, "text_config": {"hidden_size": TEXT},
              "audio_config": {**SIZES, "num_hidden_layers": 3}}
    return config, encoder, UltravoxProjector(3, 20), ultravox_rows


def voxtral():
    config = transformers.VoxtralConfig(
        audio_config={"hidden_size": HIDDEN, "intermediate_size": 4 * HIDDEN, "num_hidden_layers": 3, "num_attention_heads": 2,
                      "num_mel_bins": 80, "max_source_positions": POSITIONS}, text_config={"hidden_size": TEXT})
    config.audio_config._attn_implementation = "eager"
    return (config, modeling_voxtral.VoxtralEncoder(config.audio_config), modeling_voxtral.VoxtralMultiModalProjector(config),
            voxtral_rows)


def omni():
    config = transformers.models.qwen2_5_omni.configuration_qwen2_5_omni.Qwen2_5OmniAudioEncoderConfig(
        **SIZES, output_dim=TEXT, n_window=100)
    config._attn_implementation = "eager"
    vision = {"depth": 1, "hidden_size": 16, "intermediate_size": 16, "num_heads": 2, "patch_size": 14, "image_size": 560,
              "fullatt_block_indexes": [0], "spatial_merge_size": 2, "out_hidden_size": TEXT, "model_type": "qwen2_5_omni"}
    whole = {"hidden_size": TEXT, "model_type": "qwen2_5_omni", "text_config": {"hidden_size": TEXT},
             "thinker_config": {"text_config": {"hidden_size": TEXT}, "audio_config": config.to_dict(), "vision_config": vision}}
    return whole, modeling_qwen2_5_omni.Qwen2_5OmniAudioEncoder(config), None, omni_rows


# No recording ends shortly before the end of a piece: transformers hears silence behind it, where our spectrogram is mirrored, as its pieces
# are shorter than 30 s.
# name: what makes it, its class in its config.json, recordings of (seed, samples)
MODELS = {
    "qwen2a": (qwen2, "Qwen2AudioForConditionalGeneration", [(3, LONG - 400), (7, 5000), (6, LONG + 1800), (2, 321)]),
    "ultravox": (ultravox, "UltravoxModel", [(3, LONG - 400), (7, 5000), (6, LONG + 1800), (2, 100)]),
    "voxtral": (voxtral, "VoxtralForConditionalGeneration", [(3, LONG - 400), (7, 5000), (6, LONG + 1800)]),
    "qwen2.5o": (omni, "Qwen2_5OmniModel", [(3, 32000), (7, 5000), (6, 32000 + 3700)]),
}


def convert(converter, config, architecture, encoder, projector, target):
    tensors = {f"audio_tower.{key}": value.contiguous() for key, value in encoder.state_dict().items()
               if "positional_embedding" not in key}
    if projector is not None:
        tensors |= {f"multi_modal_projector.{key}": value for key, value in projector.state_dict().items()}
    with tempfile.TemporaryDirectory() as folder:
        safetensors.torch.save_file(tensors, pathlib.Path(folder, "model.safetensors"))
        described = config if isinstance(config, dict) else config.to_dict()
        pathlib.Path(folder, "config.json").write_text(json.dumps({**described, "architectures": [architecture]}))
        pathlib.Path(folder, "preprocessor_config.json").write_text(json.dumps({"image_mean": [0.5] * 3, "image_std": [0.5] * 3}))
        subprocess.run([sys.executable, converter, folder, "--mmproj", "--outtype", "f32", "--outfile", str(target)], check=True,
                       stdout=subprocess.DEVNULL)


def make(converter, folder, name):
    build, architecture, recordings = MODELS[name]
    config, encoder, projector, rows_of = build()
    generator = torch.Generator().manual_seed(seed_of("audio/" + name))
    for module in (encoder, projector):
        if module is not None:
            spread(module.float().eval(), generator)
    hear = transformers.WhisperFeatureExtractor(feature_size=80)
    data = struct.pack("<II", len(recordings), TEXT)
    for seed, count in recordings:
        mel = hear(signal(seed, count), sampling_rate=16000, return_tensors="pt").input_features
        with torch.no_grad():
            rows = rows_of(encoder, projector, mel, -(-count // 160))
        data += struct.pack("<III", seed, count, rows.shape[0]) + rows.numpy().astype("<f4").tobytes()
        print(f"{name:10} {rows.shape[0]} rows of {rows.shape[1]}, spread {rows.std():.2f}")
    (folder / f"{name}.rows").write_bytes(data)
    convert(converter, config, architecture, encoder, projector, folder / f"mmproj-{name}.gguf")


def main():
    converter, folder = sys.argv[1], pathlib.Path(sys.argv[2])
    folder.mkdir(parents=True, exist_ok=True)
    for name in MODELS:
        if name in sys.argv[3:] or len(sys.argv) == 3:
            make(converter, folder, name)


if __name__ == "__main__":
    main()
