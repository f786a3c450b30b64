#!/usr/bin/env bash
# Runs the tests of the GPU, and with `sanitize` also compute-sanitizer's tools on those whose kernels it can
# follow in minutes: side by side, meant to end within seven minutes on 16 cores and one H200. Needs a build with
# CUDA; the last lines are a table.
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

# Whether the tests of a log passed and all racecheck reports are inside cuBLAS's kernels named nvjet. It
# reports one wherever such a kernel's ring of tiles goes round (a product over more than about 1,000 elements),
# also in a program that calls cuBLASLt and nothing else. Those of CUDA 13.0 keep a word with each tile; 128
# threads read it, meet at a barrier, and one of them arrives at the mbarrier for which the writer waits: in
# order, but racecheck does not follow the order of all 128 through the arrival of one. Leaving these kernels
# out by --kernel-name-exclude ends in an error inside the tool.
hazards_of_cublas_alone() {
    local others
    others=$(grep -E '^========= +(Error|Warning|Internal|Program|Target|and)\b' "$1" | grep -v ' access at nvjet_')
    [[ -z $others ]] && grep -q '^========= RACECHECK SUMMARY' "$1" && grep -q '^\[  PASSED  \]' "$1" &&
        ! grep -q '^\[  FAILED  \]' "$1"
}

# check NAME COMMAND...: in the background, its line of the table to a file; what failed prints its end.
check() {
    local name=$1
    shift
    {
        local start=$SECONDS log=$results/$name.log status=good tests hazards=''
        "$@" >"$log" 2>&1 || status=FAILED
        tests=$(grep -oE '[0-9]+ tests? from [0-9]+ test suites? ran' "$log" | tail -1)
        [[ -n $tests ]] || status=FAILED
        if [[ $status == FAILED ]] && hazards_of_cublas_alone "$log"; then
            status=good
            hazards=", hazards in $(grep -oE 'access at nvjet_\w+' "$log" | sort -u | wc -l) of cuBLAS's kernels"
        fi
        [[ $status == good ]] || { echo "== $name: $*"; tail -n 100 "$log"; }
        printf '%-24s %-7s %4d s  %s\n' "$name" "$status" $((SECONDS - start)) "${tests:-no test ran}$hazards" \
            >"$results/$name.line"
    } &
}

# Tests of whole runs check the card's free memory, so they run by themselves.
check train "$build/bin/test_gpu_train" --gtest_brief=1
wait
# What they compare with is computed by one core, so each runs in parts.
for program in backend model; do
    [[ $program == backend ]] && parts=8 || parts=4
    for ((part = 0; part < parts; ++part)); do
        check "$program $((part + 1)) of $parts" env GTEST_TOTAL_SHARDS=$parts GTEST_SHARD_INDEX=$part \
            "$build/bin/test_gpu_$program" --gtest_brief=1
    done
done

if ((sanitize)); then
    wait  # racecheck takes much memory by itself
    # Each op on its awkward shapes once (ELMO_TEST_FEW: under_sanitizer() in tests/backend/op_harness.h). Left out
    # is what repeats an op many times over, and what runs only on the CPU.
    ops='-HeadStep.WithinBoundsInTiles:HeadStep.EqualsThe*:HeadStep.ChunksAnd*:HeadExtras.CompensationAdds*:HeadGrid.CompensationCarries*:HeadTopK.ScoresAnd*:AdamW.*Moves:AdamW.Kahan*:FillNormal.Moments*:Norm.DropoutKeeps*:Agreement.FillNormal*'
    ops+=':*.ReferenceWithin*:HeadExtras.DroppedStep*:LinearFp8.TheReferenceIs*:*/reference'
    tiles='HeadStep.WithinBoundsInTiles'
    step='Device/GoldenStep.*:*EmptyTexts*'
    export ELMO_TEST_FEW=1
    for tool in memcheck racecheck initcheck; do
        run=(timeout 3600 "$sanitizer" --tool "$tool" --error-exitcode 3 --print-limit 10000)
        parts=2 filter=$ops
        case $tool in
            memcheck) run+=(--leak-check no) ;;
            # Follows every access to shared memory, by far the slowest. A million labels are for those that
            # watch addresses.
            racecheck) parts=8 filter+=':*Renee.EveryPiece*' ;;
        esac
        for ((part = 0; part < parts; ++part)); do
            check "$tool, ops $((part + 1)) of $parts" env GTEST_TOTAL_SHARDS=$parts GTEST_SHARD_INDEX=$part \
                "${run[@]}" "$build/bin/test_gpu_backend" "--gtest_filter=$filter"
        done
        check "$tool, tiles" "${run[@]}" "$build/bin/test_gpu_backend" "--gtest_filter=$tiles"
        check "$tool, step" "${run[@]}" "$build/bin/test_gpu_model" "--gtest_filter=$step"
    done
    wait
    echo && echo "The slowest tests:"
    grep -E '^\[ +(OK|FAILED) +\] .*\([0-9]+ ms\)$' "$results"/*.log |
        sed -E 's|^.*/([^/]*)\.log:\[[^]]*\] (.*) \(([0-9]+) ms\)$|\3 ms  \1: \2|' | sort -rn | head -n 12
fi
wait

echo
cat "$results"/*.line
! grep -q FAILED "$results"/*.line
