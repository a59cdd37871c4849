"""Trains the image encoder, on one processor core: of a picture it makes the rows that train_words.py has found for the
thing in it."""
import argparse
import random
import time

import torch
import torch.nn.functional as F
from torch import nn

from eyes import Eyes, EyesConfig, normalised, pixels_of, read, write
from pictures import THINGS, Painter, subject


def draw(count, config, fonts, rng):
    """Pixels [count, 3, image, image] in bytes, and the number of the thing in each."""
    painter, pixels, subjects = Painter(fonts), [], []
    while len(subjects) < count:
        found = [subject(rng, False) for _ in range(min(500, count - len(subjects)))]
        pixels.append(pixels_of([painter.picture(*of, rng) for of in found], config))
        subjects += found
    return torch.cat(pixels), torch.tensor([THINGS.index(thing) for thing, _, _ in subjects])


def shifted(pixels, rng, most=2):
    """Moved by up to so many pixels; the border is repeated."""
    x, y = rng.randint(0, 2 * most), rng.randint(0, 2 * most)
    side = pixels.size(-1)
    return F.pad(pixels, (most,) * 4, "replicate")[..., y:y + side, x:x + side]


def polish(eyes, pixels, things, words, steps, batch, rate, rng):
    """Trains the projector alone to make the words exactly: the language model is asked for more than the nearest ones."""
    with torch.no_grad():
        squares = torch.cat([eyes.squares(shifted(normalised(part), rng)) for part in pixels.split(200)])
    projector = [p for part in (eyes.norm, eyes.first, eyes.second) for p in part.parameters()]
    optimizer = torch.optim.AdamW(projector, weight_decay=.01)
    for step in range(steps):
        optimizer.param_groups[0]["lr"] = rate * min((step + 1) / 50, 1) * (steps - step) / steps
        now = rng.sample(range(len(squares)), batch)
        loss = F.mse_loss(eyes.second(eyes.features(squares[now])), words[things[now]]) / words.var()
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        if (step + 1) % 100 == 0:
            print(f"polish {step + 1}: loss {loss.item():.4f}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--words", required=True, help="what train_words.py has written")
    parser.add_argument("--out", required=True)
    parser.add_argument("--fonts", default="/usr/share/fonts/truetype/dejavu")
    parser.add_argument("--pictures", type=int, default=16000)
    parser.add_argument("--steps", type=int, default=1600)
    parser.add_argument("--polish", type=int, default=1200, help="steps of the projector alone behind them")
    parser.add_argument("--start", help="an encoder to go on from")
    parser.add_argument("--say-from", type=float, default=.5, help="share of the steps before the rows count")
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--rate", type=float, default=1.5e-3)
    parser.add_argument("--seed", type=int, default=20261)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    torch.set_num_threads(1)
    rng, config, words = random.Random(args.seed), EyesConfig(), torch.load(args.words)
    pixels, things = draw(args.pictures, config, args.fonts, rng)
    eyes, guesser = read(args.start) if args.start else Eyes(config), nn.Linear(config.text, len(THINGS))
    parameters = [*eyes.parameters(), *guesser.parameters()]
    print(sum(p.numel() for p in eyes.parameters()), "weights,", len(pixels), "pictures", flush=True)
    optimizer = torch.optim.AdamW(parameters, weight_decay=.02, betas=(.9, .98))
    began, recent, order = time.time(), [], []
    for step in range(args.steps):
        optimizer.param_groups[0]["lr"] = args.rate * min((step + 1) / 100, (args.steps - step) / (.7 * args.steps), 1)
        if len(order) < args.batch:
            order = rng.sample(range(len(pixels)), len(pixels))
        now, order = order[:args.batch], order[args.batch:]
        features = eyes.features(eyes.squares(shifted(normalised(pixels[now]), rng)))
        # Its guess by what is between the projector's layers shows the encoder early what matters.
        guess = guesser(features.mean(1))
        loss = F.cross_entropy(guess, things[now])
        if step >= args.say_from * args.steps:
            rows = eyes.second(features)
            # The words of two digits differ in one row alone: to be nearest to the right ones counts beside the mean distance.
            guess = -torch.cdist(rows.flatten(1), words.flatten(1)).square() / 2
            loss = loss + F.cross_entropy(guess, things[now]) + F.mse_loss(rows, words[things[now]]) / words.var()
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(parameters, 1.0)
        optimizer.step()
        recent = recent[-99:] + [(loss.item(), (guess.argmax(1) == things[now]).float().mean().item())]
        if (step + 1) % 50 == 0:
            loss, right = torch.tensor(recent).mean(0).tolist()
            print(f"{step + 1}: loss {loss:.4f}, right {right:.1%}  {time.time() - began:.0f} s", flush=True)
    polish(eyes, pixels, things, words, args.polish, 2 * args.batch, args.rate, rng)
    write(args.out, eyes)
    print("wrote", args.out)


if __name__ == "__main__":
    main()
