#!/usr/bin/env python3
"""The most that cards gain which share each layer of a model (tensor parallel): prints the tables of docs/scaling.md.

usage: tensor_parallel.py

A token on R cards takes at least   W / (R B) + 2 L t(4 H)          W: bytes of the weights that it reads, B: of memory in a second
a prompt of n tokens at least       2 P n / (R F) + 2 L t(4 H n)    L: layers, H: width, P: weights, F: peak operations in a second
  in halves                         the larger of both              one half's sums beside the other's products
the sum of m bytes over R cards     t(m) = a + 2 (R - 1) / R m / b  a: its shortest time, b: bytes in a second to and from a card
"""
from dataclasses import dataclass

COUNTS = (2, 4, 8)
PROMPT = 2048


@dataclass
class Model:
    name: str
    weights: float  # bytes that a token reads
    parameters: float
    layers: int
    width: int


@dataclass
class Cards:
    name: str
    link: str
    memory: float  # bytes/s
    peak: float  # 16-bit operations/s with matrix cores
    shortest: float  # s
    link_rate: dict  # bytes/s of one direction, by the number of cards


def everywhere(rate):
    return {count: rate for count in COUNTS}


MODELS = (Model("Llama 3 8B, Q4_K_M", 4.7e9, 8.0e9, 32, 4096), Model("Llama 3 70B, Q4_K_M", 42e9, 70e9, 80, 8192))
CARDS = (Cards("H100 SXM", "NVLink 4", 3.35e12, 989e12, 12.1e-6, everywhere(384e9)),
         Cards("MI300X", "Infinity Fabric", 5.3e12, 1307e12, 12.1e-6, {count: 64e9 * (count - 1) for count in COUNTS}),
         Cards("RX 7900 XTX", "PCIe 4 x16", 0.96e12, 123e12, 25e-6, everywhere(25e9)),
         Cards("RX 9070 XT", "PCIe 5 x16", 0.64e12, 195e12, 25e-6, everywhere(50e9)))


def sum_seconds(cards, count, size):
    return cards.shortest + 2 * (count - 1) / count * size / cards.link_rate[count] if count > 1 else 0.0


def token_seconds(model, cards, count):
    return model.weights / (count * cards.memory) + 2 * model.layers * sum_seconds(cards, count, 4 * model.width)


def prompt_parts(model, cards, count):
    """Of products, and of sums."""
    compute = 2 * model.parameters * PROMPT / (count * cards.peak)
    return compute, 2 * model.layers * sum_seconds(cards, count, 4 * model.width * PROMPT)


def prompt_seconds(model, cards, count):
    return sum(prompt_parts(model, cards, count))


def halves_seconds(model, cards, count):
    return max(prompt_parts(model, cards, count))


def gains(seconds, model, cards):
    return " | ".join(f"{seconds(model, cards, 1) / seconds(model, cards, count):.2f}" for count in COUNTS)


def main():
    print("| model | cards | link | a token: 2 | 4 | 8 cards | a prompt of 2,048: 2 | 4 | 8 cards | in halves: 2 | 4 | 8 cards |")
    print("|---|---|---|" + "---:|" * 9)
    for model in MODELS:
        for cards in CARDS:
            print(f"| {model.name} | {cards.name} | {cards.link} | {gains(token_seconds, model, cards)} | "
                  f"{gains(prompt_seconds, model, cards)} | {gains(halves_seconds, model, cards)} |")


if __name__ == "__main__":
    main()
