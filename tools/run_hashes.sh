#!/usr/bin/env bash
# Hashes of whole runs, to check that a change keeps every bit: training with a bag and with a small BERT in four
# precisions, a stopped and continued run, compensation, augmentation, accumulation, label edits, refinement,
# evaluation and prediction. Results depend on the processor (docs/numerics.md): compare two programs on one machine.
#
#   tools/run_hashes.sh ELMO OUT [cpu|cuda|reference]
set -euo pipefail
elmo=$(readlink -f "$1")
out=$(readlink -f "$2")
device=${3:-cpu}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"

python3 - <<'PYTHON'
import random
random.seed(7)
words = ["w%03d" % i for i in range(600)]
topics = [random.sample(words, 12) for _ in range(120)]
with open("data.csv", "w") as file:
    file.write("text,labels\n")
    for row in range(1500):
        chosen = sorted({int(120 * random.random() ** 2) for _ in range(random.randint(1, 4))})
        text = [random.choice(topics[t]) for t in chosen for _ in range(4)] + random.choices(words, k=random.randint(0, 20))
        random.shuffle(text)
        file.write('%s,"%s"\n' % (" ".join(text), ",".join("label %d" % t for t in chosen)))
with open("texts.txt", "w") as file:
    for _ in range(50):
        file.write(" ".join(random.choices(words, k=random.randint(1, 30))) + "\n")
with open("new.txt", "w") as file:
    file.write("something new\nw001 w002\n")
with open("gone.txt", "w") as file:
    file.write("label 3\nlabel 17\n")
PYTHON
mkdir bert
cat > bert/config.json <<'JSON'
{"model_type": "bert", "architectures": ["BertModel"], "vocab_size": 1000, "hidden_size": 128, "num_hidden_layers": 2,
 "num_attention_heads": 4, "intermediate_size": 256, "max_position_embeddings": 64, "type_vocab_size": 2,
 "hidden_act": "gelu", "layer_norm_eps": 1e-12, "hidden_dropout_prob": 0.1, "attention_probs_dropout_prob": 0.1,
 "pad_token_id": 0}
JSON

common=(--device "$device" --vocab-size 1000 --batch-size 64 --validation 0.1 --epochs 2 --max-length 32 --augment none)
hash_run() { # name
    for folder in best last; do
        for file in "$1/$folder"/*; do
            [ -f "$file" ] || continue
            case $(basename "$file") in
                *.safetensors|state.json|tokenizer.json|labels.txt)
                    echo "$(sha256sum <"$file" | cut -c1-16)  $file" ;;
            esac
        done
    done >>"$out"
    "$elmo" predict "$1" texts.txt --json --device "$device" 2>/dev/null | sha256sum | cut -c1-16 | sed "s#\$#  $1 predict#" >>"$out"
    "$elmo" eval "$1" data.csv --json --device "$device" --save-scores none 2>/dev/null |
        sed -E 's/"(texts_per_second|checkpoint)": ?("[^"]*"|[^,}]*)//g' | sha256sum | cut -c1-16 | sed "s#\$#  $1 eval#" >>"$out"
}
run() { # name options...
    local name=$1
    shift
    "$elmo" train data.csv --out "$name" "${common[@]}" "$@" >"$name.log" 2>&1 || { tail -3 "$name.log" >&2; exit 1; }
    hash_run "$name"
}
: >"$out"
for precision in fp32 bf16 fp8 e3m4 e2m5 e2m3 renee; do
    run "bag-$precision" --encoder bag --width 128 --encoder-lr 1e-3 --precision $precision
done
for precision in bf16 fp8 e3m4 e2m5; do
    run "bert-$precision" --encoder bert --encoder-lr 1e-3 --precision $precision
done
run bag-odd --encoder bag --width 100 --encoder-lr 1e-3 --weight-dropout 0.2 --chunks 3 --threads 1
run bert-fp8-encoder --encoder bert --encoder-lr 1e-3 --encoder-precision fp8 --precision fp8
run bert-labels --encoder bert --encoder-lr 1e-3 --augment cooccurrence --accumulate 2 --precision e2m5 --head-kahan 20%
run bert-frozen --encoder bert --encoder-lr 1e-3 --freeze-encoder --pooling cls
"$elmo" labels add bag-bf16 new.txt --out added --device "$device" >/dev/null 2>&1 && hash_run added
"$elmo" labels add bag-bf16 --data data.csv --out added-none --device "$device" --steps 3 >/dev/null 2>&1 || true
"$elmo" labels remove bag-e2m5 gone.txt --out removed --device "$device" >/dev/null 2>&1 && hash_run removed
"$elmo" refine bag-fp8 --out refined --device "$device" >/dev/null 2>&1 && hash_run refined
"$elmo" predict bag-bf16 texts.txt --json --labels gone.txt --device "$device" 2>/dev/null | sha256sum | cut -c1-16 | sed 's#$#  among#' >>"$out"
"$elmo" predict bag-bf16 texts.txt --json --without gone.txt --device "$device" 2>/dev/null | sha256sum | cut -c1-16 | sed 's#$#  without#' >>"$out"
"$elmo" calibrate bag-bf16 --device "$device" --json 2>/dev/null | sha256sum | cut -c1-16 | sed 's#$#  calibrate#' >>"$out"
"$elmo" plan data.csv --encoder bert --device "$device" --vocab-size 1000 --json 2>/dev/null |
    sed -E 's/"(program_bytes|total_bytes|mapped_bytes|room_bytes)": ?[0-9]+,?//g; s/"estimated_time":\{[^}]*\},?//' | sha256sum | cut -c1-16 | sed 's#$#  plan#' >>"$out"
echo "$(wc -l <"$out") hashes in $out"
