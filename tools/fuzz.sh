#!/usr/bin/env bash
# Builds every fuzz target with clang and runs each for a while from the seeds in fuzz/corpus/<target>.
#   tools/fuzz.sh SECONDS [JOBS]
# A finding ends the script with an error and leaves its input in build-asan/findings.
set -euo pipefail
cd "$(dirname "$0")/.."
seconds=${1:-15}
jobs=${2:-$(nproc)}
targets=()
for source in fuzz/fuzz_*.cpp; do targets+=("$(basename "$source" .cpp)"); done

cmake --preset sanitize >/dev/null
cmake --build build-asan -j "$jobs" --target "${targets[@]}"
mkdir -p build-asan/findings

# fuzz TARGET
fuzz() {
    local target=$1 corpus log=build-asan/$1.log
    corpus=$(mktemp -d)
    [ -d "fuzz/corpus/$target" ] && cp -r "fuzz/corpus/$target/." "$corpus"
    if ! OMP_NUM_THREADS=1 "build-asan/bin/$target" -max_total_time="$seconds" -timeout=120 -rss_limit_mb=2048 \
        -print_final_stats=1 -print_funcs=0 -artifact_prefix=build-asan/findings/ "$corpus" >"$log" 2>&1; then
        tail -n 60 "$log"
        echo "Fuzzing: $target failed; its input is in build-asan/findings" >&2
        return 1
    fi
    echo "Fuzzing: $target, $seconds s,$(sed -n 's/.*number_of_executed_units: */ /p' "$log") executions"
    rm -rf "$corpus"
}
export -f fuzz
export seconds
printf '%s\n' "${targets[@]}" | xargs -P "$jobs" -I TARGET bash -c 'fuzz TARGET'
echo "Fuzzing: no findings in ${#targets[@]} targets"
