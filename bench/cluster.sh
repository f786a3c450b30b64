#!/usr/bin/env bash
# Measures steps on a real cluster, beside the model (bench/cluster_model.py): the same run of some steps on 1, 2, 4, ...
# ranks. Prints the median step of each, and compares the bytes of their last checkpoints.
#
#   bench/cluster.sh ELMO "mpirun -n %d" [LABELS] [BATCH] [RANKS...]
#
# %d becomes the number of ranks; "srun --mpi=pmix -n %d" works as well. DEVICE=cpu tries the script without GPUs.
# OUT (default: a new folder here) must lie on a file system that all machines see.
set -euo pipefail
elmo=$(readlink -f "$1")
launcher=$2
labels=${3:-1000000}
batch=${4:-1024}
shift $(($# < 4 ? $# : 4))
ranks=("$@")
[ ${#ranks[@]} -gt 0 ] || ranks=(1 2 4 8)
device=${DEVICE:-cuda}
steps=${STEPS:-60}
out=${OUT:-cluster-$(date +%Y%m%d-%H%M%S)}
mkdir -p "$out"
cd "$out"

# Eight labels per row, so that all labels occur.
python3 - "$labels" "$batch" "$steps" <<'PYTHON'
import random, sys
labels, batch, steps = (int(a) for a in sys.argv[1:])
random.seed(1)
words = ["w%04d" % i for i in range(5000)]
rows = max(labels // 8, batch * steps)
with open("data.csv", "w") as file:
    file.write("text,labels\n")
    for row in range(rows):
        chosen = ",".join(str((row * 8 + i) % labels) for i in range(8))
        file.write('%s,"%s"\n' % (" ".join(random.choices(words, k=random.randint(8, 30))), chosen))
PYTHON
options=(train data.csv --device "$device" --encoder "${ENCODER:-bag}" --precision "${PRECISION:-e2m5}" --batch-size "$batch"
    --max-length 32 --validation 0 --augment none --steps "$steps" --log-every 10 --batch-shards "${SHARDS:-8}"
    --label-groups "${LABEL_GROUPS:-16}" --quiet)
first=
for n in "${ranks[@]}"; do
    start=$(date +%s.%N)
    # shellcheck disable=SC2059
    $(printf "$launcher" "$n") "$elmo" "${options[@]}" --out "run-$n" >"run-$n.out" 2>&1 || { cat "run-$n.out"; exit 1; }
    python3 - "$n" "$start" <<'PYTHON'
import json, sys, time
n, start = sys.argv[1], float(sys.argv[2])
steps = [json.loads(line) for line in open(f"run-{n}/log.jsonl")]
times = sorted(line["step_ms"] for line in steps if line.get("event") == "step" and line["step"] > 10)
print(f"{n} ranks: {times[len(times) // 2]:.2f} ms per step (median), {time.time() - start:.0f} s in all")
PYTHON
    if [ -z "$first" ]; then
        first=run-$n
    else
        diff -rq "$first/last" "run-$n/last" >/dev/null && echo "  bytes equal to $first" || { echo "  DIFFERENT BYTES from $first"; exit 1; }
    fi
done
