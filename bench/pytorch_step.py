#!/usr/bin/env python3
"""One training step of an extreme classifier in plain PyTorch on the CPU: the yardstick for `elmo bench`.

The step is what a careful PyTorch user writes: encoder forward in BF16, logits of all labels, the gradient
without the loss (sigmoid minus target), the gradient of the input, an in-place SGD update of the classifier
in its storage type, encoder backward, AdamW. The classifier's update rounds to nearest (stochastic rounding
would cost PyTorch more). Prints one JSON object.
"""
import argparse
import json
import resource
import statistics
import time

import torch


def head_step(x, w, rows, cols, lr, chunk):
    """Updates w in place and returns the gradient of x. Works label chunk by label chunk."""
    dx = torch.zeros(x.shape, dtype=torch.float32)
    compute = torch.float32 if w.dtype == torch.float32 else torch.bfloat16
    xc = x.to(compute)
    for begin in range(0, w.shape[0], chunk):
        wc = w[begin : begin + chunk]
        weights = wc.to(compute)
        g = torch.sigmoid((xc @ weights.T).float())
        inside = (cols >= begin) & (cols < begin + wc.shape[0])
        g[rows[inside], cols[inside] - begin] -= 1.0
        g = g.to(compute)
        dx += g @ weights
        update = g.T @ xc
        if wc.dtype in (torch.float32, torch.bfloat16):
            wc.add_(update, alpha=-lr)
        else:
            wc.copy_((weights.float() - lr * update.float()).to(wc.dtype))
    return dx


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("what", choices=["step", "head"])
    p.add_argument("--encoder", help="Hugging Face folder (step)")
    p.add_argument("--labels", type=int, default=100_000)
    p.add_argument("--batch-size", type=int, default=64)
    p.add_argument("--max-length", type=int, default=32)
    p.add_argument("--width", type=int, default=384, help="width of the head (head)")
    p.add_argument("--precision", choices=["fp32", "bf16", "fp8"], default="bf16")
    p.add_argument("--steps", type=int, default=7)
    p.add_argument("--threads", type=int, default=0)
    p.add_argument("--chunk", type=int, default=0, help="labels at a time; 0: all at once")
    a = p.parse_args()
    if a.threads:
        torch.set_num_threads(a.threads)
    torch.manual_seed(0)
    dtype = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp8": torch.float8_e4m3fn}[a.precision]

    model = optimizer = None
    width = a.width
    if a.what == "step":
        from transformers import AutoModel

        model = AutoModel.from_pretrained(a.encoder, dtype=torch.bfloat16, add_pooling_layer=False)
        model.train()
        width = model.config.hidden_size
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, weight_decay=0.01)
        ids = torch.randint(1000, 20000, (a.batch_size, a.max_length))
        mask = torch.ones_like(ids)
    w = torch.empty(a.labels, width, dtype=dtype)
    for begin in range(0, a.labels, 65536):
        piece = w[begin : begin + 65536]
        piece.copy_((torch.randn(piece.shape) * 0.02).to(dtype))
    rows = torch.arange(a.batch_size).repeat_interleave(5)
    cols = torch.randint(0, a.labels, (5 * a.batch_size,))
    chunk = a.chunk or a.labels
    fixed_x = torch.randn(a.batch_size, width).bfloat16()

    times = []
    for step in range(a.steps + 2):
        start = time.perf_counter()
        if model is None:
            with torch.no_grad():
                head_step(fixed_x, w, rows, cols, 0.05, chunk)
        else:
            hidden = model(input_ids=ids, attention_mask=mask).last_hidden_state
            x = torch.nn.functional.dropout(hidden.mean(1), 0.5)
            with torch.no_grad():
                dx = head_step(x.detach(), w, rows, cols, 0.05, chunk)
            x.backward(dx.to(x.dtype))
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
        if step >= 2:
            times.append((time.perf_counter() - start) * 1e3)
    print(
        json.dumps(
            {
                "what": a.what,
                "precision": a.precision,
                "threads": torch.get_num_threads(),
                "torch": torch.__version__,
                "median_ms": statistics.median(times),
                "min_ms": min(times),
                "max_ms": max(times),
                "measured_peak_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
            }
        )
    )


if __name__ == "__main__":
    main()
