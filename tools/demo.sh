#!/usr/bin/env bash
# The tour of `make demo`: a real data set made from WordNet, a model trained on it, its scores, and answers.
#   tools/demo.sh [PROGRAM]
set -euo pipefail
cd "$(dirname "$0")/.."
elmo=${1:-build/bin/elmo}
wordnet=${WORDNET:-/usr/share/wordnet}
began=$SECONDS

step() { printf '\n== %s\n' "$*"; }

step "A data set from WordNet: words and definitions, and the kinds of thing they are"
"$elmo" data wordnet --wordnet "$wordnet" --out demo/wordnet --overwrite

step "Training on this machine's CPU, nothing given but the data"
"$elmo" train demo/wordnet --out demo/run --overwrite >demo/train.txt

step "Scores on the test set, in percent"
"$elmo" eval demo/run demo/wordnet --quiet >demo/eval.txt
grep -E '^(percent|P|PSP) ' demo/eval.txt
echo
grep -E '^(training time|speed|peak memory)' demo/train.txt

step "Five definitions that are in no file"
"$elmo" predict demo/run --top 4 --quiet <<'TEXTS'
a small domesticated feline kept as a pet
a large wooden musical instrument with strings that are plucked
someone who designs bridges and tunnels
a yellow fruit with a sour juice
to walk slowly and without a goal
TEXTS

printf '\nDone in %d s. The run is in demo/run: try\n' $((SECONDS - began))
printf '  echo "a device for measuring temperature" | %s predict demo/run\n' "$elmo"
printf '  %s explain demo/run --text "a yellow fruit with a sour juice"\n' "$elmo"
printf '  %s serve demo/run\n' "$elmo"
