#!/usr/bin/env bash
# Checks the format of all C++ sources against .clang-format; with --fix, corrects it.
set -euo pipefail
cd "$(dirname "$0")/.."
if [ "${1:-}" = --fix ]; then
    mode=(-i)
else
    mode=(--dry-run -Werror)
fi
find apps bench cmake examples fuzz include python/src src tests tools \( -name '*.h' -o -name '*.cpp' -o -name '*.cu' -o -name '*.cuh' \) -print0 | xargs -0 clang-format "${mode[@]}"
echo "Format: good"
