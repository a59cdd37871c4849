#!/usr/bin/env python3
"""Makes tests/golden/audio: recordings in each format, and what transformers' WhisperFeatureExtractor hears of random signals.

    python -m venv golden && golden/bin/pip install torch transformers numpy soundfile
    golden/bin/python tools/goldens/sound_golden.py tests/golden/audio

Recordings are tones of 440 and 880 Hz on two channels. spectrograms.bin, little-endian: u32 signals; for each u32 seed, samples,
bands, frames, f32 the value of all further frames, f32 [frames, bands]. signal() says which samples.
"""
import pathlib
import struct
import sys

import numpy
import soundfile
import transformers


def signal(seed, count):
    """Noise and a square wave, both as loud as the seed says."""
    index = numpy.arange(count, dtype=numpy.uint64)
    h = (index + numpy.uint64(seed * 1_000_003)) * numpy.uint64(2654435761) & numpy.uint64(0xFFFFFFFF)
    h = (h ^ (h >> numpy.uint64(15))) * numpy.uint64(2246822519) & numpy.uint64(0xFFFFFFFF)
    noise = (h >> numpy.uint64(16)).astype(numpy.int64) - 32768
    wave = numpy.where(index // numpy.uint64(5 + 3 * seed) % numpy.uint64(2) == 0, 1, -1)
    return ((noise * (1 << seed % 8) // 128 + wave * 20 * seed) / 65536).astype(numpy.float32)


def write_recordings(folder):
    rate = 44100
    time = numpy.arange(rate * 3 // 20) / rate
    tones = numpy.stack([0.5 * numpy.sin(2 * numpy.pi * hertz * time) for hertz in (440, 880)], 1)
    for name, kind, subtype in [("pcm16.wav", "WAV", "PCM_16"), ("float.wav", "WAV", "FLOAT"), ("alaw.wav", "WAV", "ALAW"),
                                ("tones.flac", "FLAC", "PCM_16"), ("tones.mp3", "MP3", "MPEG_LAYER_III"),
                                ("vorbis.ogg", "OGG", "VORBIS")]:
        soundfile.write(folder / name, tones, rate, format=kind, subtype=subtype)
    soundfile.write(folder / "opus.ogg", tones[:, 0], 48000, format="OGG", subtype="OPUS")
    soundfile.write(folder / "nan.wav", numpy.array([0.0, numpy.nan, 0.5]), 16000, format="WAV", subtype="FLOAT")
    soundfile.write(folder / "tones.aiff", tones[:100], rate, format="AIFF", subtype="PCM_16")


def write_spectrograms(file):
    signals = 20
    file.write(struct.pack("<I", signals))
    for seed in range(1, signals + 1):
        bands = 80 if seed % 2 else 128
        samples = signal(seed, 1000 + 61 * seed)
        hear = transformers.WhisperFeatureExtractor(feature_size=bands)
        mel = hear(samples, sampling_rate=16000, return_tensors="np").input_features[0].T
        frames = len(samples) // 160 + 3
        assert mel.shape == (3000, bands) and numpy.ptp(mel[frames:]) == 0
        file.write(struct.pack("<IIIIf", seed, len(samples), bands, frames, mel[-1, 0]))
        file.write(mel[:frames].astype("<f4").tobytes())


def main():
    folder = pathlib.Path(sys.argv[1])
    write_recordings(folder)
    with open(folder / "spectrograms.bin", "wb") as file:
        write_spectrograms(file)


if __name__ == "__main__":
    main()
