"""Asks a checkpoint or a GGUF file the held-out questions, greedily, and measures its perplexity on the held-out text."""
import argparse
import json

import torch
import torch.nn.functional as F

import gguf_file
from chat import Encoder
from model import Config, Model, fake_quant


def load(path, device):
    if path.endswith(".gguf"):
        meta, tensors = gguf_file.read(path)
        get = lambda key: meta["llama." + key]
        config = Config(get("vocab_size"), get("embedding_length"), get("block_count"), get("attention.head_count"),
                        get("attention.head_count_kv"), get("attention.key_length"), get("feed_forward_length"),
                        get("context_length"), get("rope.freq_base"), get("attention.layer_norm_rms_epsilon"))
        weights = {name: torch.tensor(x) for name, x in tensors.items()}
    else:
        saved = torch.load(path, map_location="cpu")
        config, weights = Config(**saved["config"]), saved["model"]
    model = Model(config)
    model.load_state_dict(weights)
    return model.to(device).eval()


@torch.no_grad()
def generate(model, prompts, stop, limit):
    """Greedy continuations of a batch of prompts; the padding on the right is never attended to."""
    device = next(model.parameters()).device
    length = torch.tensor([len(p) for p in prompts], device=device)
    ids = torch.zeros(len(prompts), min(int(length.max()) + limit, model.config.context), dtype=torch.long, device=device)
    for i, prompt in enumerate(prompts):
        ids[i, :len(prompt)] = torch.tensor(prompt)
    out, alive, rows = [[] for _ in prompts], [True] * len(prompts), torch.arange(len(prompts), device=device)
    while any(alive) and int(length.max()) < ids.size(1):
        token = model(ids[:, :int(length.max())])[rows, length - 1].argmax(-1)
        ids[rows, length] = token
        length += 1
        for i, t in enumerate(token.tolist()):
            alive[i] = alive[i] and t != stop
            if alive[i]:
                out[i].append(t)
    return out


def right(question, reply):
    expect = question["expect"]
    if question["check"] == "equals":
        return reply.strip() == expect
    if question["check"] == "contains":
        return expect in reply
    try:
        return json.loads(reply) == json.loads(expect)
    except ValueError:
        return False


@torch.no_grad()
def perplexity(model, ids, window=512):
    device, total, count = next(model.parameters()).device, 0.0, 0
    for at in range(0, len(ids) - window, window):
        piece = torch.tensor([ids[at:at + window + 1]], device=device)
        loss = F.cross_entropy(model(piece[:, :-1]).float()[0], piece[0, 1:], reduction="sum")
        total, count = total + loss.item(), count + window
    return 2.718281828459045 ** (total / count)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", help="a checkpoint or a GGUF file")
    parser.add_argument("--tokenizer", required=True)
    parser.add_argument("--questions", required=True)
    parser.add_argument("--text")
    parser.add_argument("--f16", action="store_true", help="round the matrices to half precision first")
    parser.add_argument("--four-bit", action="store_true", help="round the matrices to 4 bits first")
    parser.add_argument("--show", type=int, default=3, help="wrong answers to show for each skill")
    args = parser.parse_args()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    encoder, model = Encoder(args.tokenizer), load(args.model, device)
    for p in model.parameters():
        if p.dim() == 2 and args.f16:
            p.data = p.data.half().float()
        if p.dim() == 2 and args.four_bit:
            p.data = fake_quant(p.data)
    with open(args.questions, encoding="utf-8") as file:
        questions = json.load(file)["questions"]
    skills = {}
    for q in questions:
        skills.setdefault(q["skill"], []).append(q)
    for skill, group in skills.items():
        group.sort(key=lambda q: len(str(q["messages"])))
        good, wrong = 0, []
        for at in range(0, len(group), 25):
            batch = group[at:at + 25]
            replies = generate(model, [encoder.prompt(q["messages"]) for q in batch], encoder.stop, 64)
            for q, reply in zip(batch, map(encoder.decode, replies)):
                if right(q, reply):
                    good += 1
                else:
                    wrong.append((q["messages"][-1]["content"][-90:], q["expect"], reply))
        print(f"{skill:12s} {good}/{len(group)} = {good / len(group):.1%}", flush=True)
        for item in wrong[:args.show]:
            print("    asked, expected, got:", item)
    if args.text:
        with open(args.text, encoding="utf-8") as file:
            print(f"perplexity   {perplexity(model, encoder.text(file.read())):.3f}")
    for text in ("Hello", "Who are you?", "2 + 2", "What is the capital of France?", "Tell me a short story about a fox."):
        prompt = encoder.prompt([{"role": "user", "content": text}])
        print(">", text, "\n ", encoder.decode(generate(model, [prompt], encoder.stop, 300 if "story" in text else 50)[0]))


if __name__ == "__main__":
    main()
