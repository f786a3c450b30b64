#!/usr/bin/env bash
# Several ranks on one GPU: every byte must be that of one process. Staged through host memory with 2, 3 and 4 ranks,
# and by NCCL with 2 and 4, each rank with its own NCCL_HOSTID: NCCL then takes them for different machines and speaks
# through sockets, which is slow and right. Also with the head in host memory. Then a rank is killed under NCCL, and a step
# is measured without ranks, with one and with two. Needs mpirun, a build with MPI and CUDA, and libnccl.so.2 (or ELMO_NCCL).
#
#   tools/gpu_ranks.sh ELMO [STEPS]
set -euo pipefail
elmo=$(readlink -f "$1")
steps=${2:-20}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
export NCCL_SOCKET_IFNAME=lo NCCL_IB_DISABLE=1 NCCL_P2P_DISABLE=1 NCCL_SHM_DISABLE=1 NCCL_MAX_CTAS=4

python3 - <<'PYTHON'
import random
random.seed(7)
words = ["w%03d" % i for i in range(600)]
with open("data.csv", "w") as file:
    file.write("text,labels\n")
    for row in range(6000):
        chosen = sorted({row % 5000, int(5000 * random.random() ** 2)})
        text = [words[t % 600] for t in chosen] + random.choices(words, k=random.randint(0, 25))
        file.write('%s,"%s"\n' % (" ".join(text), ",".join("label %d" % t for t in chosen)))
PYTHON
mkdir bert
cat > bert/config.json <<'JSON'
{"model_type": "bert", "architectures": ["BertModel"], "vocab_size": 1000, "hidden_size": 128, "num_hidden_layers": 2,
 "num_attention_heads": 2, "intermediate_size": 256, "max_position_embeddings": 64, "type_vocab_size": 2,
 "hidden_act": "gelu", "layer_norm_eps": 1e-12, "hidden_dropout_prob": 0.1, "attention_probs_dropout_prob": 0.1,
 "pad_token_id": 0}
JSON
wrong=0
nccl_ranks() { # ranks, words of elmo
    mpirun --oversubscribe -n "$1" bash -c 'export NCCL_HOSTID=$OMPI_COMM_WORLD_RANK; exec "$0" "$@"' "$elmo" "${@:2}"
}
compare() { # name
    for part in last best; do
        diff -rq "one/$part" "many/$part" >/dev/null || { echo "DIFFERENT: $1: $part"; wrong=1; }
    done
    echo "$1: compared"
    rm -rf many
}
for precision in bf16 e2m5; do
    common=(train data.csv --device cuda --encoder bert --encoder-lr 1e-3 --vocab-size 1000 --batch-size 128 --max-length 32
        --validation 0.05 --augment none --steps "$steps" --precision "$precision" --batch-shards 4 --label-groups 4 --quiet)
    rm -rf one
    "$elmo" "${common[@]}" --exchange host --out one >/dev/null
    for ranks in 2 3 4; do
        mpirun --oversubscribe -n $ranks "$elmo" "${common[@]}" --exchange host --out many >/dev/null
        compare "$precision, $ranks ranks, host"
    done
    # The recipe names the exchange: the same word for both.
    rm -rf one
    "$elmo" "${common[@]}" --exchange nccl --out one >/dev/null
    for ranks in 2 4; do
        nccl_ranks $ranks "${common[@]}" --exchange nccl --out many >/dev/null
        compare "$precision, $ranks ranks, nccl"
    done
done
rm -rf one
"$elmo" "${common[@]}" --head-memory host --exchange host --out one >/dev/null
mpirun --oversubscribe -n 2 "$elmo" "${common[@]}" --head-memory host --exchange host --out many >/dev/null
compare "e2m5, 2 ranks, head in host memory"
[ $wrong -eq 0 ] && echo "All bytes equal"

# All ranks end and one names the dead; "exec" above makes the pids those of elmo.
nccl_ranks 4 "${common[@]}" --steps 1000000 --exchange nccl --save-every 5 --out killed >/dev/null 2>said &
launcher=$!
until [ -e killed/last/state.json ] || ! kill -0 $launcher 2>/dev/null; do sleep 0.1; done
for pid in $(pgrep -f -- "--out killed"); do
    ! grep -qz '^OMPI_COMM_WORLD_RANK=2$' "/proc/$pid/environ" 2>/dev/null || victim=$pid
done
kill -9 "$victim"
killed=$(date +%s.%N)
wait $launcher && { echo "WRONG: a killed rank, and status 0"; wrong=1; }
echo "a killed rank under NCCL: all gone after $(awk -v a="$killed" -v b="$(date +%s.%N)" 'BEGIN { printf "%.1f", b - a }') s"
grep "elmo: error" said || { echo "WRONG: nothing was said"; wrong=1; }
"$elmo" predict killed --text "w001 w002" --checkpoint last --quiet >/dev/null || wrong=1

median() { python3 -c 'import json, sys; print("%.3f ms" % json.load(sys.stdin)["median_ms"])'; }
shape=(bench step --device cuda --shape lf-amazontitles-131k --precision fp8 --steps 40 --json)
echo "a step of lf-amazontitles-131k, one process: $("$elmo" "${shape[@]}" | median)"
echo "the same as one rank, NCCL: $(nccl_ranks 1 "${shape[@]}" --exchange nccl | median)"
echo "cut in two shards and groups: $("$elmo" "${shape[@]}" --batch-shards 2 --label-groups 2 | median)"
echo "two ranks on this card, through sockets: $(nccl_ranks 2 "${shape[@]}" --exchange nccl | median)"
exit $wrong
