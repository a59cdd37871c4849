#!/usr/bin/env python3
"""Writes src/tensor/quant/grid_*.h: the vectors that the codes of the IQ1, IQ2 and IQ3 formats index, as small codes.

Needs numpy and the `gguf` package of PyPI, which holds these tables. Run clang-format over the result.
usage: quant_grids.py [OUT_FOLDER]
"""
import pathlib
import sys

import numpy as np
from gguf import quants

# File: its tables as (class of the package, name here, bits of a code in an entry, the value of a code).
FILES = {
    "grid_iq1.h": [("IQ1_S", "iq1_grid", 2, "code - 1")],
    "grid_iq2.h": [(name, f"{name.lower()}_grid", 2, "8, 25, 43") for name in ("IQ2_XXS", "IQ2_XS", "IQ2_S")],
    "grid_iq3.h": [("IQ3_XXS", "iq3_xxs_grid", 4, "4 + 8 * code, the last 62"), ("IQ3_S", "iq3_s_grid", 4, "2 * code + 1")],
}


def table(package_name, name, bits, meaning):
    kind = getattr(quants, package_name)
    kind.init_grid()
    grid = kind.grid.reshape(kind.grid_shape)
    codes = np.searchsorted(np.array(kind.grid_map), grid)
    assert (np.array(kind.grid_map)[codes] == grid).all(), name
    entries = (codes.astype(np.uint32) << (bits * np.arange(grid.shape[1], dtype=np.uint32))).sum(axis=1)
    return (f"/// {grid.shape[1]} codes of {bits} bits each, from the low bits up. A code stands for {meaning}.\n"
            f"ROCMFORGE_TABLE constexpr std::uint16_t {name}[{len(entries)}] = {{\n"
            + ", ".join(f"0x{entry:04x}" for entry in entries) + "};\n")


def main():
    default = pathlib.Path(__file__).resolve().parents[2] / "src" / "tensor" / "quant"
    folder = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else default
    for file, tables in FILES.items():
        body = "\n".join(table(*entry) for entry in tables)
        (folder / file).write_text("#pragma once\n\n// Written by tools/quant/quant_grids.py from the tables of the format.\n\n"
                                   '#include <cstdint>\n\n#include "tensor/quant/block.h"\n\nnamespace rocmforge {\n\n'
                                   + body + "\n}  // namespace rocmforge\n")


if __name__ == "__main__":
    main()
