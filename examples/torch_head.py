"""Trains a model of the transformers library, which elmo itself does not know, with a million labels.

    python examples/torch_head.py [--model NAME] [--labels 1000000] [--used 20] [--steps 300] [--batch 256]
                                  [--device cuda] [--precision e2m5]

The texts are made up: each is a dozen words of which two, in any place, name the label. Few of the labels occur
(--used), so that a short training learns them; the head has and trains them all. Without --model the encoder is a small
ALBERT with random weights, so nothing is downloaded. Prints the memory of the head, the loss, the time of a step and
how often the right label is the first of all in new texts. Without a GPU, --labels 20000 --steps 60 --batch 64 is
enough to see it learn."""
import argparse
import random
import time

import torch
import transformers

from elmo.torch import Head

parser = argparse.ArgumentParser()
parser.add_argument("--model")
parser.add_argument("--labels", type=int, default=1_000_000)
parser.add_argument("--used", type=int, default=20)
parser.add_argument("--batch", type=int, default=256)
parser.add_argument("--steps", type=int, default=300)
parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
parser.add_argument("--precision", default="e2m5")
args = parser.parse_args()
torch.manual_seed(1)

if args.model:
    encoder = transformers.AutoModel.from_pretrained(args.model)
else:
    encoder = transformers.AlbertModel(transformers.AlbertConfig(
        vocab_size=4000, embedding_size=128, hidden_size=384, num_hidden_layers=3, num_attention_heads=6,
        intermediate_size=1536, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0))
encoder = encoder.to(args.device)
width, words = encoder.config.hidden_size, min(encoder.config.vocab_size, 4000)
# The vectors of such encoders are long, about the root of their width: greater rates overshoot.
head = Head(args.labels, width, batch=args.batch, precision=args.precision, lr=0.01, device=args.device)
optimiser = torch.optim.AdamW(encoder.parameters(), 3e-4)
memory = {line.split()[0]: " ".join(line.split()[-2:]) for line in head.plan.splitlines() if line}
print(f"memory: {memory['arena']} of the head and its step, {memory['total']} with the program and its libraries")

used = random.Random(1).sample(range(args.labels), args.used)  # labels that occur


def make_batch(size, rng):
    """Texts as word numbers, and a list of labels per text."""
    labels = [rng.choice(used) for _ in range(size)]
    names, others = words // 2, range(words // 2, words)
    texts = [rng.sample(others, 10) + [label % names, label // names % names] for label in labels]
    for text in texts:
        rng.shuffle(text)
    return torch.tensor(texts, device=args.device), [[label] for label in labels]


def vectors_of(texts):
    with torch.autocast(torch.device(args.device).type, torch.bfloat16):
        return encoder(input_ids=texts).last_hidden_state.mean(1)


rng = random.Random(2)
began = time.time()
for step in range(1, args.steps + 1):
    texts, labels = make_batch(args.batch, rng)
    loss = head(vectors_of(texts), labels)
    loss.backward()
    optimiser.step()
    optimiser.zero_grad()
    if step % 20 == 0:
        print(f"step {step}: loss {loss.item():.3f}, {1000 * (time.time() - began) / 20:.1f} ms per step", flush=True)
        began = time.time()

texts, labels = make_batch(args.batch, random.Random(3))
with torch.no_grad():
    best = head.eval().topk(vectors_of(texts), 1)[1].flatten().tolist()
right = sum(a == b[0] for a, b in zip(best, labels)) / len(labels)
print(f"first of {args.labels} labels: {100 * right:.1f} % of {len(labels)} new texts (a guess among the {args.used} that "
      f"occur: {100 / args.used:.1f} %)")
