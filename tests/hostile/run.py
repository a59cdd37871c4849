#!/usr/bin/env python3
"""Attacks a server with everything that a client or a model's file can do to it, while clients that mean no harm ask beside it.

usage: run.py ROCMFORGE MODEL [--only PATTERN] [--guard SECONDS] [--report FILE] [--list]

What is asserted holds on any machine, however busy: the server lives, each attacker gets a status that is right and a message of
one line, memory keeps to the limit, everything that was taken is given back, and the others get their answers, whole and as they
were without the attack. How long they waited is written to the report and asserted nowhere. `--guard` ends what hangs.
"""
import argparse
import collections
import dataclasses
import math
import pathlib
import re
import sys
import tempfile
import time

import clients
import departures
import grammars
import limits
import memory
import requests
import templates
from arena import NAMES, Arena, Attack, NotStarted, Place, Result
from templates import one_line

TOPICS = {"requests": requests, "grammars": grammars, "memory": memory, "clients": clients, "departures": departures, "templates": templates,
          "limits": limits}

SHOWN = 3  # problems of an attack


def no_attack(arena, _):
    return arena.innocents_served(5)


class Suite:
    def __init__(self, options, folder):
        self.options, self.folder = options, folder
        self.arena = None  # serves the attacks that need no server of their own
        self.alone = None
        self.waiting = {}

    def open(self, attack, model):
        arena = Arena(self.options.program, model, self.options.guard, attack.flags, attack.spare_mib)
        self.alone = self.alone or arena.alone
        if arena.alone != self.alone:
            arena.stop()
            raise RuntimeError(f"the innocents get {arena.alone}, of another server it was {self.alone}")
        return arena

    def begin(self, attacks):
        place = Place(self.options.program, self.options.model, self.options.guard)
        self.waiting = {attack.name: attack.early(place) for attack in attacks if attack.early}

    def run(self, attack):
        prepared = self.waiting.get(attack.name) or attack.prepare()
        model = attack.model(self.options.model, self.folder) if attack.model else self.options.model
        if not attack.needs_server:
            return self.without_server(attack, Place(self.options.program, model, self.options.guard), prepared)
        own = attack.wants_own_server()
        try:
            if own or self.arena is None:
                opened = self.open(attack, model)
                self.arena, arena = (self.arena, opened) if own else (opened, opened)
            else:
                arena = self.arena
        except NotStarted as refused:
            problems = [str(refused)]
            if attack.may_not_start and refused.code > 0:
                problems = list(one_line(refused.line, "the server"))
            return Result(attack.name, problems, answers=collections.Counter({f"serve: {refused.code}": 1}))
        result = arena.face(attack, prepared)
        if own:
            arena.stop()
        elif result.problems:  # the next attack shall not meet what this one has left
            self.stop()
        return result

    @staticmethod
    def without_server(attack, place, prepared):
        begin = time.monotonic()
        problems = list(attack.run(place, prepared))
        return Result(attack.name, problems, time.monotonic() - begin, place.answers)

    def stop(self):
        if self.arena:
            self.arena.stop()
            self.arena = None


def milliseconds(seconds, share):
    """That so many of `seconds` keep to; the longest when there are few."""
    if not seconds:
        return "–"
    return f"{sorted(seconds)[math.ceil(share * len(seconds)) - 1] * 1e3:.0f}"


def table(results):
    yield f"| attack | outcome | answers | took, s | {NAMES['stream']}: longest gap, ms | {NAMES['question']}: p99, ms | {NAMES['health']}: p99, ms | peak, MiB |"
    yield "|---|---|---|---|---|---|---|---|"
    for result in results:
        outcome = "; ".join(result.problems[:SHOWN]).replace("|", "\\|") or "ok"
        answers = ", ".join(f"{number} × {what}" for what, number in sorted(result.answers.items(), key=str))
        waits = (milliseconds(result.latencies.get(name), share) for name, share in (("stream", 1), ("question", 0.99), ("health", 0.99)))
        yield (f"| {result.name} | {outcome[:300]} | {answers} | {result.seconds:.1f} | {' | '.join(waits)} | "
               f"{f'{result.peak_mib:.0f}' if result.peak_mib else '–'} |")


def read_options():
    parser = argparse.ArgumentParser(description="Attacks a server; see the head of this file.")
    parser.add_argument("program")
    parser.add_argument("model")
    parser.add_argument("--only", default="", metavar="PATTERN", help="attacks whose topic and name match")
    parser.add_argument("--guard", type=float, default=60, metavar="SECONDS", help="what takes longer hangs")
    parser.add_argument("--report", type=pathlib.Path, metavar="FILE", help="for the table, in Markdown")
    parser.add_argument("--list", action="store_true", help="name the attacks")
    return parser.parse_args()


def main():
    options = read_options()
    attacks = [dataclasses.replace(attack, name=f"{topic}: {attack.name}") for topic, module in TOPICS.items() for attack in module.ATTACKS]
    attacks = [attack for attack in attacks if re.search(options.only, attack.name)]
    if options.list:
        print("\n".join(attack.name for attack in attacks))
        return 0
    results = []
    with tempfile.TemporaryDirectory() as folder:
        suite = Suite(options, folder)
        suite.begin(attacks)
        try:
            for attack in [Attack("none", no_attack), *attacks]:
                results.append(suite.run(attack))
                problems = results[-1].problems
                more = [f"and {len(problems) - SHOWN} more problems"] if len(problems) > SHOWN else []
                for problem in problems[:SHOWN] + more:
                    print(f"FAILED: {attack.name}: {problem}", flush=True)
                if not problems:
                    print(f"passed: {attack.name} ({results[-1].seconds:.1f} s)", flush=True)
        finally:
            suite.stop()
    text = "\n".join(table(results))
    if options.report:
        options.report.write_text(text + "\n")
    failed = sum(bool(result.problems) for result in results)
    print(f"{text}\n\n{len(results) - failed} passed, {failed} failed, 0 skipped")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
