#!/bin/sh
# Decode and prefill of models that are split over a GPU and the CPU: 30B-A3B with its experts on the CPU, and 8B with half of its
# layers there, each beside the whole model on the GPU. The files have random weights; they are made where they are missing.
# usage: bench/split_models.sh PROGRAM FOLDER [THREADS]
set -eu
program=$1
folder=$2
threads=${3:-$(nproc)}
synth=$(dirname "$0")/../tools/quant/synth_gguf.py

model() { # SHAPE
  file=$folder/$1.q4_k_m.gguf
  if [ ! -e "$file" ]; then
    python3 "$synth" "$1" q4_k_m "$file.part"
    mv "$file.part" "$file"
  fi
}
measure() { # WORDS... : options of the split
  echo "== $(basename "$file") $*"
  "$program" inspect "$file" --plan "$@" -c 4096 | grep '^placement' || echo "placement: all on the GPU"
  "$program" bench "$file" -p 2048 -n 128 -r 3 -b 2048 -t "$threads" "$@"
}

# Measures the memory of both, on which the choice depends.
"$program" bench matmul > /dev/null
"$program" bench matmul --device cpu -t "$threads" > /dev/null
model qwen3-30b-a3b
measure
measure --cpu-moe
measure --n-cpu-moe 24
measure --gpu-memory 12288
model llama3-8b
measure
measure -ngl 16
measure --gpu-memory 4096
