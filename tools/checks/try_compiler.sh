#!/usr/bin/env bash
# Tries the project with another compiler: tools/checks/try_compiler.sh COMPILER[+libc++] [CTEST ARGUMENT...]
#
# Builds program and tests with COMPILER (clang++-16, clang++-19+libc++, g++-13) in a folder of its own below build/, as
# preset `tested` does, with warnings as errors. Then the demo model answers, and the tests run that CTEST ARGUMENTs choose
# (`-L '^tensor$'`; default: all but the slow ones and those of the source tree). The compiler must be installed; for libc++
# also libc++-N-dev and libc++abi-N-dev.
#
# environment: CMAKE (default: cmake; another version's, whose ctest is taken too), FORGE_JOBS (default: all processors)
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

die() { printf 'try_compiler: %s\n' "$*" >&2; exit 1; }

name=${1:-}
compiler=${name%+libc++}
[ -n "$compiler" ] || die "usage: tools/checks/try_compiler.sh COMPILER[+libc++] [CTEST ARGUMENT...]"
command -v "$compiler" >/dev/null || die "there is no '$compiler' here"
shift

cmake=$(command -v "${CMAKE:-cmake}") || die "there is no '${CMAKE:-cmake}' here"
ctest=$(dirname "$cmake")/ctest
jobs=${FORGE_JOBS:-$(nproc)}
folder=build/$(basename "$compiler" | tr -d +)
options=(-DCMAKE_CXX_COMPILER="$compiler")
if [ "$name" != "$compiler" ]; then
  folder+=-libcxx options+=(-DROCMFORGE_LIBCXX=ON)
fi
# As in forge: ccache does not cache objects made with a precompiled header.
! command -v ccache >/dev/null || options+=(-DCMAKE_CXX_COMPILER_LAUNCHER=ccache -DROCMFORGE_PRECOMPILE_LIBRARIES=OFF)

"$cmake" --preset tested -B "$folder" "${options[@]}"
"$cmake" --build "$folder" -j "$jobs"
answer=$("$folder/apps/rocmforge/rocmforge" run --greedy -p "What is 127 + 458?" 2>/dev/null) || true
[ "$answer" = 585 ] || die "the demo model answers '$answer'"
[ $# -gt 0 ] || set -- -LE '^(slow|emulated|gpu|hygiene|tools)$'
"$ctest" --test-dir "$folder" --output-on-failure -j "$((2 * jobs))" "$@"
