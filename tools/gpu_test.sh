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
results=$(mktemp -d)
trap 'rm -rf "$results"' EXIT

# check NAME COMMAND...: in the background, its line of the table to a file; what failed prints its end.
check() {
    local name=$1
    shift
    {
        local start=$SECONDS log=$results/$name.log status=good tests
        "$@" >"$log" 2>&1 || status=FAILED
        tests=$(grep -oE '[0-9]+ tests? from [0-9]+ test suites? ran' "$log" | tail -1)
        [[ -n $tests ]] || status=FAILED
        [[ $status == good ]] || { echo "== $name: $*"; tail -n 100 "$log"; }
        printf '%-24s %-7s %4d s  %s\n' "$name" "$status" $((SECONDS - start)) "${tests:-no test ran}" \
            >"$results/$name.line"
    } &
}

for program in backend model train; do
    check "$program" "$build/bin/test_gpu_$program" --gtest_brief=1
done
wait

if ((sanitize)); then
    # Each op on its awkward shapes once; what repeats an op many times over is left out.
    ops='-HeadStep.WithinBoundsInTiles:HeadStep.EqualsThe*:HeadStep.ChunksAnd*:HeadExtras.CompensationAdds*:HeadTopK.ScoresAnd*:AdamW.*Moves:AdamW.Kahan*:FillNormal.Moments*:Norm.DropoutKeeps*:Agreement.FillNormal*'
    tiles='HeadStep.WithinBoundsInTiles'
    step='Device/GoldenStep.*:*EmptyTexts*'
    parts=5
    export ELMO_TEST_FEW=1
    for tool in memcheck racecheck initcheck; do
        run=(timeout 900 "$sanitizer" --tool "$tool" --error-exitcode 3 --print-limit 20)
        [[ $tool == memcheck ]] && run+=(--leak-check no)
        for ((part = 0; part < parts; ++part)); do
            check "$tool, ops $((part + 1)) of $parts" env GTEST_TOTAL_SHARDS=$parts GTEST_SHARD_INDEX=$part \
                "${run[@]}" "$build/bin/test_gpu_backend" --gtest_brief=1 "--gtest_filter=$ops"
        done
        check "$tool, tiles" "${run[@]}" "$build/bin/test_gpu_backend" --gtest_brief=1 "--gtest_filter=$tiles"
        check "$tool, step" "${run[@]}" "$build/bin/test_gpu_model" --gtest_brief=1 "--gtest_filter=$step"
    done
    wait
fi

echo
cat "$results"/*.line
! grep -q FAILED "$results"/*.line
