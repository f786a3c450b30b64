#!/usr/bin/env python3
"""Writes tests/model/golden: one training step of tiny BERT-family models in FP64, computed by PyTorch and
transformers, for the tests to agree with. Needs torch, transformers and safetensors; the tests do not.

Each folder holds config.json, model.safetensors (F32: every weight is an FP32 number, so that the FP64 model
is exactly the stored one) and golden.safetensors:
  tokens, offsets      the packed batch (I32)
  positives            [P, 2] label and sample, sorted (I64)
  head                 W [L, D] before the step; head_after: after one SGD step
  pooled, dpooled      the text vectors [B, D] and the gradient of the loss by them
  loss                 the sum of BCE over samples and labels
  grad.NAME            the gradient of every encoder weight
"""

import json
import pathlib
import sys

import torch
from safetensors.torch import save_file
from transformers import (BertConfig, BertModel, DistilBertConfig, DistilBertModel, MPNetConfig, MPNetModel,
                          RobertaConfig, RobertaModel, XLMRobertaConfig, XLMRobertaModel)

LABELS = 11
LR, WEIGHT_DECAY = 0.125, 0.0625  # exact in FP32
EPSILON = 2.0**-17  # exact in FP32, and large enough to be felt

FAMILIES = {
    # Texts of awkward lengths: repeated tokens, a text of one token, the longest that fits. No pad token:
    # transformers gives its embedding no gradient.
    "bert": (
        BertModel,
        BertConfig(vocab_size=31, hidden_size=16, num_hidden_layers=2, num_attention_heads=2,
                   intermediate_size=24, max_position_embeddings=9, type_vocab_size=2, layer_norm_eps=EPSILON),
        [[2, 7, 7, 30, 3], [5], [2, 11, 12, 13, 14, 15, 16, 7, 3]], "bert.", "mean"),
    "distilbert": (
        DistilBertModel,
        DistilBertConfig(vocab_size=23, dim=12, n_layers=2, n_heads=3, hidden_dim=41,
                         max_position_embeddings=7),
        [[1, 22, 4, 4, 6, 9, 2], [3, 8, 3], [1, 2]], "", "mean"),
    "roberta": (
        RobertaModel,
        RobertaConfig(vocab_size=29, hidden_size=18, num_hidden_layers=2, num_attention_heads=2,
                      intermediate_size=37, max_position_embeddings=9, type_vocab_size=1, pad_token_id=1,
                      layer_norm_eps=EPSILON),
        [[0, 28, 5, 2], [0, 4, 6, 4, 8, 10, 2], [3]], "", "cls"),
    "xlm-roberta": (
        XLMRobertaModel,
        XLMRobertaConfig(vocab_size=27, hidden_size=12, num_hidden_layers=2, num_attention_heads=3,
                         intermediate_size=20, max_position_embeddings=10, type_vocab_size=1, pad_token_id=1,
                         layer_norm_eps=EPSILON),
        [[0, 26, 7, 5, 2], [4], [0, 9, 9, 11, 13, 15, 17, 2]], "roberta.", "mean"),
    # A text in which most buckets of the bias occur.
    "mpnet": (
        MPNetModel,
        MPNetConfig(vocab_size=25, hidden_size=12, num_hidden_layers=2, num_attention_heads=2,
                    intermediate_size=20, max_position_embeddings=32, layer_norm_eps=EPSILON),
        [[0, 24, 5, 2], [3], [0] + [4 + (7 * i) % 20 for i in range(28)] + [2]], "mpnet.", "mean"),
}
POSITIVES = [(0, 1), (3, 0), (3, 2), (10, 0)]  # (label, sample); label 3 twice, sample 1 once


def randomise(model, generator):
    """Every weight a random FP32 number of a size at which no part of the network is flat."""
    for name, parameter in model.named_parameters():
        norm = "norm" in name.lower() and name.endswith("weight")
        values = torch.randn(parameter.shape, generator=generator, dtype=torch.float64) * 0.3 + (1.0 if norm else 0.0)
        parameter.data = values.float().double()


def main(target):
    for index, (family, (make, config, texts, prefix, pooling)) in enumerate(FAMILIES.items()):
        generator = torch.Generator().manual_seed(1000 + index)
        config._attn_implementation = "eager"
        options = {} if family == "distilbert" else {"add_pooling_layer": False}
        model = make(config, **options).double().eval()
        randomise(model, generator)
        width = config.hidden_size
        head = (torch.randn(LABELS, width, generator=generator, dtype=torch.float64) * 0.5).float().double()

        # One text at a time: no padding, no mask.
        rows = [model(torch.tensor([text])).last_hidden_state[0] for text in texts]
        pooled = torch.stack([row.mean(0) if pooling == "mean" else row[0] for row in rows])
        pooled.retain_grad()
        weight = head.clone().requires_grad_()
        y = torch.zeros(len(texts), LABELS, dtype=torch.float64)
        for label, sample in POSITIVES:
            y[sample, label] = 1
        loss = torch.nn.functional.binary_cross_entropy_with_logits(pooled @ weight.T, y, reduction="sum")
        loss.backward()

        folder = pathlib.Path(target) / family
        folder.mkdir(parents=True, exist_ok=True)
        written = {k: v for k, v in config.to_diff_dict().items() if k != "_attn_implementation"}
        written.update(model_type=family, elmo_pooling=pooling, torch_dtype="float32")
        written.pop("transformers_version", None)
        (folder / "config.json").write_text(json.dumps(written, indent=2, sort_keys=True) + "\n")
        save_file({prefix + k: v.detach().float().contiguous() for k, v in model.named_parameters()},
                  folder / "model.safetensors", metadata={"format": "pt"})
        golden = {
            "tokens": torch.tensor(sum(texts, []), dtype=torch.int32),
            "offsets": torch.tensor([0] + [len(t) for t in texts]).cumsum(0).to(torch.int32),
            "positives": torch.tensor(POSITIVES, dtype=torch.int64),
            "head": head,
            "head_after": (weight * (1 - LR * WEIGHT_DECAY) - LR * weight.grad).detach(),
            "pooled": pooled.detach(),
            "dpooled": pooled.grad,
            "loss": loss.detach().reshape(1),
        }
        for name, parameter in model.named_parameters():
            golden["grad." + name] = parameter.grad
        save_file({k: v.contiguous() for k, v in golden.items()}, folder / "golden.safetensors")


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).parent.parent / "tests/model/golden")
