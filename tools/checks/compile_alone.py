"""Finds the files that do not compile alone, in fewer compilations than there are files.

What stands before a file in a compilation hides nothing that the file lacks where the file includes all of it anyway. So if B includes A,
one compilation of A and behind it B shows that both compile alone: a chain. And a large header is precompiled for the files that include
it: a base. The last in a chain is called its top. Only includes outside of any #if count. The files of a chain that fails are
compiled one by one, so that each that fails is named."""
import dataclasses
import itertools
import pathlib
import subprocess

from include_graph import ROOT

# Precompiled where so many chains include them. GCC takes longer to write most other headers than their users take to read them: 26 s for
# engine/plan_model.h, of which a user saves 2.
BASES = ("src/base/json.h",)
FEWEST_USERS = 8


@dataclasses.dataclass
class Chain:
    files: list  # each is included by the next
    base: str = None  # a header that all of them include


def chain_to(top, base, waiting, includes):
    """The longest found chain of `waiting` files to `top`, above `base`. They no longer wait then."""
    files = [top]
    waiting.discard(top)
    while below := [file for file in includes.sure[files[-1]] & waiting if base is None or base in includes.sure[file]]:
        files.append(max(below, key=lambda file: (len(includes.sure[file]), file)))
        waiting.discard(files[-1])
    return Chain(files[::-1], base)


def chains_of(files, base_of, waiting, includes):
    tops = sorted(files, key=lambda file: (file.endswith(".h"), -len(includes.sure[file]), file))
    return [chain_to(top, base_of(top), waiting, includes) for top in tops if top in waiting]


def plan(files, includes):
    """The chains that are precompiled, by the base that is their top, and those that are compiled behind them."""
    rough = chains_of(files, lambda top: None, set(files), includes)
    bases = [base for base in BASES if sum(base in includes.sure[chain.files[-1]] for chain in rough) >= FEWEST_USERS]
    waiting = set(files)
    precompiled = {base: chain_to(base, None, waiting, includes) for base in bases}
    return precompiled, chains_of(files, lambda top: next((base for base in bases if base in includes.sure[top]), None), waiting, includes)


class Compiler:
    """`common`: headers that stand before every file, as <header>. Precompiled headers go to `folder`."""

    def __init__(self, command, common, folder):
        self.command, self.common, self.folder = command, common, pathlib.Path(folder)
        self.bases, self.numbers = {}, itertools.count()

    def precompile(self, base, files):
        """Whether `files` compile behind the common headers. Their precompiled form is what chains on `base` begin with."""
        header = self.folder / f"base_{next(self.numbers)}.h"
        header.write_text("".join(f"#include {line}\n" for line in [*self.common, *(f'"{ROOT / file}"' for file in files)]))
        generated = [flag for flag in self.command if flag != "-fsyntax-only"]
        done = subprocess.run([*generated, "-x", "c++-header", header, "-o", f"{header}.gch"], cwd=ROOT, capture_output=True)
        if done.returncode == 0:
            self.bases[base] = header
        return done.returncode == 0

    def error_in(self, chain):
        """The first error, or None. A header is included twice, which finds a missing `#pragma once`: the last one here, the others by
        the files that include them."""
        again = chain.files[-1:] if chain.files[-1].endswith(".h") else []
        text = "".join(f'#include "{ROOT / file}"\n' for file in [*chain.files, *again])
        before = self.bases.get(chain.base, self.bases.get(None))
        include = ["-include", str(before)] if before else []
        result = subprocess.run([*self.command, *include, "-x", "c++", "-"], input=text, text=True, capture_output=True, cwd=ROOT)
        if result.returncode == 0:
            return None
        lines = result.stderr.splitlines()
        return next((line for line in lines if "error:" in line), lines[-1] if lines else f"exit code {result.returncode}")


def failures_of(files, common, includes, command, folder, pool):
    """{file: the first error} of those that do not compile alone."""
    folder.mkdir()
    precompiled, chains = plan(files, includes)
    compiler = Compiler(command, common, folder)
    if common and not compiler.precompile(None, []):
        raise SystemExit(f"the common headers do not compile: {' '.join(common)}")
    found = dict(zip(precompiled, pool.map(lambda item: compiler.precompile(item[0], item[1].files), precompiled.items())))
    errors = list(zip(chains, pool.map(compiler.error_in, chains)))
    failing = [({*chain.files, *(precompiled[chain.base].files if chain.base else [])}, chain.files[-1], error)
               for chain, error in errors if error]
    suspects = {file for base, compiles in found.items() if not compiles for file in precompiled[base].files}.union(*(part for part, *_ in failing))
    suspects = sorted(suspects.intersection(files))
    failures = {file: error for file, error in zip(suspects, pool.map(lambda file: compiler.error_in(Chain([file])), suspects)) if error}
    # Never silent, though what compiles one by one should compile in a chain.
    return failures | {top: error for part, top, error in failing if not part & failures.keys()}
