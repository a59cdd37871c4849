#!/usr/bin/env bash
# Runs small cases of the conformance suite under NVIDIA's compute-sanitizer, on a GPU: memory that no buffer covers, races in shared
# memory, reads of what was never written, misused barriers.
#
# usage: try_sanitizer.sh [TOOL...]     memcheck, racecheck, initcheck, synccheck; default: all
#
# Prints a line for each tool and group of cases. What was said is kept in build/sanitizer. compute-sanitizer comes with the CUDA toolkit, and as
# the package nvidia-cuda-sanitizer-api of PyPI; SANITIZER names another one. PROGRAM, KERNELS: in place of the preset cuda's. ONLY: these groups
# of cases alone, such as 'attention routing'; SECONDS_EACH: for a tool and group.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

sanitizer=${SANITIZER:-$(command -v compute-sanitizer || echo /usr/local/cuda/bin/compute-sanitizer)}
program=${PROGRAM:-build/cuda/tests/test_conformance}
export ROCMFORGE_TEST_DEVICE=${DEVICE:-cuda} ROCMFORGE_KERNEL_DIR=${KERNELS:-build/kernels}
seconds=${SECONDS_EACH:-150}  # for one tool and group
[ -x "$sanitizer" ] || { echo "try_sanitizer: no compute-sanitizer; SANITIZER names one" >&2; exit 2; }

read -ra groups <<<"${ONLY:-attention products experts routing states}"
declare -A cases=(
  [attention]='Tiny/AttentionConformance.*:Tiny/AttentionAppend.*:AttentionConformance.Tiny*:LatentExpand.TinyEquals*'
  [products]='Formats/MatmulConformanceTiny.EqualsTheReference/*:Formats/MatmulFusionsTiny.EqualTheChainOfOperations/Q4_K'
  [experts]='Formats/ExpertMatmulTiny.*/Q4_K:Formats/ExpertMatmulTiny.*/Q8_0:Formats/ExpertMatmulTiny.*/MXFP4:Formats/ExpertMatmulTiny.*/F16'
  [routing]='RouteTokens.Tiny*:RouteRows.Tiny*:SampleConformance.Tiny*'
  [states]='DeltaNetConformance.Tiny*:SsmScanConformance.Tiny*:CausalConvConformance.Tiny*:RmsNormConformance.Tiny*'
)
tools=("$@")
[ ${#tools[@]} -gt 0 ] || tools=(memcheck racecheck initcheck synccheck)
mkdir -p build/sanitizer
failed=0
for tool in "${tools[@]}"; do
  for group in "${groups[@]}"; do
    log=build/sanitizer/$tool-$group.log
    started=$SECONDS status=0
    timeout "$seconds" "$sanitizer" --tool "$tool" --error-exitcode 99 --print-limit 20 "$program" --gtest_filter="${cases[$group]}" >"$log" 2>&1 || status=$?
    ran=$(grep -c '^\[       OK ' "$log" || true)
    case $status in
      0) result=clean ;;
      124) result="not done in $seconds s, clean so far"; grep -q '^========= .*\(Invalid\|hazard\|Uninitialized\|Error\|Barrier\)' "$log" && { result="errors"; failed=1; } ;;
      *) result="errors (status $status)"; failed=1 ;;
    esac
    printf '%-10s %-10s %4d cases %5d s  %s; %s\n' "$tool" "$group" "$ran" $((SECONDS - started)) "$result" \
      "$(grep -o 'ERROR SUMMARY.*\|RACECHECK SUMMARY.*' "$log" | tail -n 1)"
  done
done
exit "$failed"
