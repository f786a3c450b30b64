#!/usr/bin/env bash
# Runs the tests of the GPU, and with `sanitize` also compute-sanitizer's tools on those whose kernels it can
# follow in minutes. Needs a build with CUDA; the last lines are a table.
#
#   tools/gpu_test.sh [BUILD] [sanitize]
set -uo pipefail
build=build
sanitize=0
for argument in "$@"; do
    case $argument in
        sanitize) sanitize=1 ;;
        *) build=$argument ;;
    esac
done
export ELMO_REQUIRE_GPU=1
sanitizer=$(command -v compute-sanitizer || echo /usr/local/cuda/bin/compute-sanitizer)
table=()
failed=0

# check NAME COMMAND...
check() {
    local name=$1 start=$SECONDS log status=good
    shift
    log=$(mktemp)
    "$@" >"$log" 2>&1 || { status=FAILED; failed=1; }
    [[ $status == good ]] || { echo "== $name: $*"; tail -n 100 "$log"; }
    local tests
    tests=$(grep -oE '[0-9]+ tests? from [0-9]+ test suites? ran' "$log" | tail -1)
    table+=("$(printf '%-24s %-7s %4d s  %s' "$name" "$status" $((SECONDS - start)) "${tests:-no test ran}")")
    [[ -n $tests ]] || failed=1
    rm -f "$log"
}

for program in backend model train; do
    check "$program" "$build/bin/test_gpu_$program" --gtest_brief=1
done

if ((sanitize)); then
    # Each op on its awkward shapes once; what repeats an op many times over is left out.
    ops='-HeadStep.WithinBoundsInTiles:HeadStep.EqualsThe*:HeadStep.ChunksAnd*:HeadTopK.ScoresAnd*:AdamW.*Moves:AdamW.Kahan*:FillNormal.Moments*:Norm.DropoutKeeps*:Agreement.FillNormal*'
    heads='HeadStep.WithinBoundsInTiles:HeadTopK.Rising*'
    step='Device/GoldenStep.*:*EmptyTexts*'
    for tool in memcheck racecheck initcheck; do
        run=("$sanitizer" --tool "$tool" --error-exitcode 3 --print-limit 20)
        [[ $tool == memcheck ]] && run+=(--leak-check no)
        check "$tool, ops" timeout 900 "${run[@]}" "$build/bin/test_gpu_backend" --gtest_brief=1 "--gtest_filter=$ops"
        check "$tool, tiles" env ELMO_TEST_FEW=1 timeout 900 "${run[@]}" "$build/bin/test_gpu_backend" --gtest_brief=1 "--gtest_filter=$heads"
        check "$tool, step" timeout 900 "${run[@]}" "$build/bin/test_gpu_model" --gtest_brief=1 "--gtest_filter=$step"
    done
fi

echo
printf '%s\n' "${table[@]}"
exit $failed
