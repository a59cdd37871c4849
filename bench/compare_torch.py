#!/usr/bin/env python3
"""Times ROCmForge's attention beside PyTorch's SDPA (flash and cuDNN) on the same tensors, in one process.

usage: compare_torch.py LIBRARY [--device cuda:0] [--kernel-dir DIR] [--backend NAME] [--head-dims 64,128,256] [--lengths 512,2048,8192,16384]
                        [--decode 1x4096,16x4096,64x4096] [--rounds 7] [--skip-full] [--check SHAPES [--calls 40]]

LIBRARY is librocmforge_attention.so. Needs torch with a GPU. Every element of every output is compared with f32 attention of
the same tensors, computed in pieces: on a poisoned output before the timed calls, and again what the last timed call left.
A backend that is wrong is named with the shape, the count and the first place, and the exit code is 1 where it is ours.
Backends are timed in turn; the median of the rounds counts. TFLOP/s: 4 batch heads q_len kv_len head_dim, half of it when
causal. GB/s: K and V once.

--check times nothing: it calls each of SHAPES (SEQUENCESxLENGTH:HEADS:KV_HEADS:HEAD_DIM, comma separated; causal and full) many
times, and counts rows that are not written and rows that are wrong.
"""
import argparse
import ctypes
import statistics
import sys

import torch
import torch.nn.functional as functional
from torch.nn.attention import SDPBackend, sdpa_kernel

BF16 = 30
PEERS = {"torch flash": SDPBackend.FLASH_ATTENTION, "torch cuDNN": SDPBackend.CUDNN_ATTENTION}


class Options(ctypes.Structure):
    _fields_ = [("dtype", ctypes.c_int32), ("causal", ctypes.c_int32), ("scale", ctypes.c_float), ("window", ctypes.c_int32),
                ("soft_cap", ctypes.c_float), ("sinks", ctypes.c_void_p), ("backend", ctypes.c_char_p),
                ("on_device", ctypes.c_int32), ("stream", ctypes.c_void_p), ("own_stream", ctypes.c_int32)]


class Dense(ctypes.Structure):
    _fields_ = [(name, ctypes.c_int32) for name in ("batch", "q_len", "kv_len", "q_heads", "kv_heads", "head_dim")] + [
        (name, ctypes.c_void_p) for name in ("q", "k", "v", "mask", "out")]


class Library:
    def __init__(self, path, device, kernel_dir):
        self.calls = ctypes.CDLL(path)
        self.calls.rocmforge_open.restype = ctypes.c_void_p
        self.calls.rocmforge_last_backend.restype = ctypes.c_char_p
        self.error = ctypes.create_string_buffer(512)
        folder = kernel_dir.encode() if kernel_dir else None
        self.context = ctypes.c_void_p(self.calls.rocmforge_open(device.encode(), folder, self.error, 512))
        if not self.context:
            sys.exit(self.error.value.decode())

    def attention(self, q, k, v, out, causal, backend):
        """q, out [batch, q_len, heads, head_dim], k, v [batch, kv_len, kv_heads, head_dim], on torch's stream."""
        stream = torch.cuda.current_stream().cuda_stream
        options = Options(BF16, int(causal), 0.0, 0, 0.0, None, backend, 1, stream, 0)
        call = Dense(q.shape[0], q.shape[1], k.shape[1], q.shape[2], k.shape[2], q.shape[3],
                     q.data_ptr(), k.data_ptr(), v.data_ptr(), None, out.data_ptr())
        if self.calls.rocmforge_attention_dense(self.context, ctypes.byref(call), ctypes.byref(options), self.error, 512):
            sys.exit(self.error.value.decode())

    def last_backend(self):
        return self.calls.rocmforge_last_backend(self.context).decode()


ROWS_AT_ONCE = 1024
ROW_TOLERANCE = 3e-2  # of one row's norm, in BF16
TOLERANCE = 8e-3  # of an output as a whole
ELEMENTS_AT_ONCE = 1 << 26  # compared at once, so that large outputs need little more memory


def exact(q, k, v, causal):
    """f32 attention of all rows, [batch, q_len, heads, head_dim]."""
    group = q.shape[2] // k.shape[2]
    out = torch.empty(q.shape, device=q.device, dtype=torch.float32)
    keys_of_rows = torch.arange(k.shape[1], device=q.device)
    for sequence in range(q.shape[0]):
        keys = k[sequence].float().repeat_interleave(group, dim=1)
        values = v[sequence].float().repeat_interleave(group, dim=1)
        for first in range(0, q.shape[1], ROWS_AT_ONCE):
            rows = slice(first, min(first + ROWS_AT_ONCE, q.shape[1]))
            scores = torch.einsum("rhd,khd->hrk", q[sequence, rows].float(), keys) / q.shape[3] ** 0.5
            if causal:
                limit = torch.arange(rows.start, rows.stop, device=q.device) + k.shape[1] - q.shape[1]
                scores.masked_fill_((keys_of_rows[None, :] > limit[:, None])[None], float("-inf"))
            out[sequence, rows] = torch.einsum("hrk,khd->rhd", scores.softmax(-1), values)
    return out


class Comparison:
    """How an output differs from the exact one: rows of one head that were not (wholly) written, rows that are wrong, the first
    of either as (sequence, row, head), and the relative error of all finite elements."""

    def __init__(self, actual, expected):
        self.missing = self.wrong = 0
        self.first = None
        error = norm = 0.0
        step = max(1, ELEMENTS_AT_ONCE // max(1, actual[0].numel()))
        for start in range(0, actual.shape[0], step):
            right = expected[start:start + step].double()
            found = actual[start:start + step].double()
            missing = ~torch.isfinite(found).all(-1)
            difference = torch.where(torch.isfinite(found), found - right, torch.zeros_like(right))
            wrong = ~missing & ~(difference.norm(dim=-1) <= ROW_TOLERANCE * right.norm(dim=-1))
            if self.first is None and bool((missing | wrong).any()):
                place = (missing | wrong).nonzero()[0].tolist()
                self.first = (start + place[0], place[1], place[2])
            self.missing, self.wrong = self.missing + int(missing.sum()), self.wrong + int(wrong.sum())
            error, norm = error + difference.square().sum().item(), norm + right.square().sum().item()
        self.rows = actual.shape[0] * actual.shape[1] * actual.shape[2]
        self.relative = (error / norm) ** 0.5 if norm > 0 else error ** 0.5

    def right(self):
        return self.missing + self.wrong == 0 and self.relative <= TOLERANCE

    def text(self):
        place = "" if self.first is None else ", the first in sequence {}, row {}, head {}".format(*self.first)
        return (f"relative error {self.relative:.1e}, {self.missing} rows not written and {self.wrong} wrong of {self.rows}"
                f"{place}")


def check(library, shape, causal, backend, calls):
    """Whether every row of `calls` calls is right."""
    sequences, length, heads, kv_heads, head_dim = shape
    make = lambda count: torch.randn(sequences, length, count, head_dim, device="cuda", dtype=torch.bfloat16)
    tensors = make(heads), make(kv_heads), make(kv_heads)
    expected = exact(*tensors, causal)
    out = torch.empty_like(tensors[0])
    missing = wrong = 0
    for _ in range(calls):
        out.fill_(float("nan"))
        library.attention(*tensors, out, causal, backend)
        found = Comparison(out, expected)
        missing, wrong = missing + found.missing, wrong + found.wrong
    rows = calls * sequences * length * heads
    print(f"{library.last_backend()} {sequences}x{length} heads {heads}:{kv_heads} head_dim {head_dim} "
          f"{'causal' if causal else 'full'}: {calls} calls, {rows} rows, {missing} not written, {wrong} wrong", flush=True)
    return missing + wrong == 0


def calls_of(library, tensors, out, causal, backend):
    """Name -> function that computes, ours into `out`, and returns [batch, q_len, heads, head_dim]."""
    q, k, v = tensors

    def ours():
        library.attention(q, k, v, out, causal, backend)
        return out

    turned = [t.transpose(1, 2).contiguous() for t in tensors]  # SDPA wants heads before rows

    def peer(which):
        def run():
            with sdpa_kernel(which):
                # one query row sees everything: causal would mask all keys but the first
                result = functional.scaled_dot_product_attention(*turned, is_causal=causal and q.shape[1] > 1, enable_gqa=True)
            return result.transpose(1, 2)
        return run

    return {"ours": ours, **{name: peer(which) for name, which in PEERS.items()}}


def report(name, who, when, found):
    """Prints what is wrong; whether the exit code stays 0."""
    if found.right():
        return True
    print(f"{name}: {who} is WRONG{when}: {found.text()}", flush=True)
    return who != "ours"


def seconds_of(call, repetitions):
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    start.record()
    for _ in range(repetitions):
        call()
    end.record()
    end.synchronize()
    return start.elapsed_time(end) * 1e-3 / repetitions


def measure(library, name, shape, causal, backend, rounds):
    batch, q_len, kv_len, heads, kv_heads, head_dim = shape
    make = lambda length, count: torch.randn(batch, length, count, head_dim, device="cuda", dtype=torch.bfloat16)
    tensors = make(q_len, heads), make(kv_len, kv_heads), make(kv_len, kv_heads)
    out = torch.full_like(tensors[0], float("nan"))
    calls = calls_of(library, tensors, out, causal, backend)
    expected = exact(*tensors, causal)
    right, repetitions = True, {}
    for who, call in list(calls.items()):
        try:
            actual = call()
        except RuntimeError as problem:  # SDPA has no kernel for these shapes
            print(f"{name}: {who} n/a: {str(problem).splitlines()[0]}")
            del calls[who]
            continue
        right = report(name, who, "", Comparison(actual, expected)) and right
        seconds_of(call, 3)
        repetitions[who] = max(3, int(0.02 / seconds_of(call, 3)))
    times = {who: [] for who in calls}
    for _ in range(rounds):
        for who, call in calls.items():
            times[who].append(seconds_of(call, repetitions[who]))
    if "ours" in calls:  # the output is one and the same tensor in every call; it holds what the last timed one wrote
        right = report(name, "ours", " after the timed calls", Comparison(out, expected)) and right
    work = 4 * batch * heads * q_len * kv_len * head_dim * (0.5 if causal and q_len > 1 else 1.0)
    kv_bytes = 2 * batch * kv_len * kv_heads * head_dim * 2
    columns = []
    for who, seconds in times.items():
        middle = statistics.median(seconds)
        speed = f"{work / middle / 1e12:6.1f} TFLOP/s" if q_len > 1 else f"{middle * 1e6:7.1f} us {kv_bytes / middle / 1e9:5.0f} GB/s"
        spread = (max(seconds) - min(seconds)) / middle
        columns.append(f"{who} {speed} (±{50 * spread:.0f} %)")
    ours = statistics.median(times["ours"])
    ratios = [f"{statistics.median(times[who]) / ours:.2f}x {who}" for who in times if who != "ours"]
    print(f"{name}: {', '.join(columns)}; {library.last_backend()} is {', '.join(ratios)}", flush=True)
    return right


def integers(text):
    return [int(part) for part in text.split(",") if part]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("library")
    parser.add_argument("--device", default="cuda:0", help="of ROCmForge; torch uses its current one")
    parser.add_argument("--kernel-dir")
    parser.add_argument("--backend", default="")
    parser.add_argument("--head-dims", type=integers, default=[64, 128, 256])
    parser.add_argument("--lengths", type=integers, default=[512, 2048, 8192, 16384])
    parser.add_argument("--decode", default="1x4096,16x4096,64x4096")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--skip-full", action="store_true")
    parser.add_argument("--check", default="")
    parser.add_argument("--calls", type=int, default=40)
    arguments = parser.parse_args()
    torch.manual_seed(0)
    library = Library(arguments.library, arguments.device, arguments.kernel_dir)
    backend = arguments.backend.encode()
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}, cuDNN {torch.backends.cudnn.version()}, bf16")
    right = True
    if arguments.check:
        for text in arguments.check.split(","):
            shape = [int(part) for part in text.replace("x", ":").split(":")]
            for causal in (True, False):
                right = check(library, shape, causal, backend, arguments.calls) and right
        return 0 if right else 1
    for head_dim in arguments.head_dims:
        heads = 2048 // head_dim if head_dim != 256 else 16
        for causal in (True,) if arguments.skip_full else (True, False):
            for length in arguments.lengths:
                batch = max(1, 16384 // length)
                name = f"head_dim {head_dim} {'causal' if causal else 'full'} {batch}x{length} heads {heads}:{heads}"
                shape = batch, length, length, heads, heads, head_dim
                right = measure(library, name, shape, causal, backend, arguments.rounds) and right
    for pair in filter(None, arguments.decode.split(",")):
        batch, context = (int(part) for part in pair.split("x"))
        name = f"decode {batch}x{context} heads 32:8 head_dim 128"
        right = measure(library, name, (batch, 1, context, 32, 8, 128), True, b"", arguments.rounds) and right
    return 0 if right else 1


if __name__ == "__main__":
    sys.exit(main())
