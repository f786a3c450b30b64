"""Head: the classifier of elmo as a PyTorch module, behind any encoder.

Its forward is elmo's fused step: scores of all labels, loss, gradient of the vectors and update of the weights in one
pass, with weights in 16 or 8 bits and no gradient of them in memory. Autograd gets the gradient of the vectors; an
optimiser sees none of the head's weights."""
from __future__ import annotations

import contextlib
import itertools
import os
import tempfile
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch

from elmo import _core
from elmo._config import text_of
from elmo._inputs import name_of
from elmo.metrics import from_lists, true_rows, whole_numbers

OPTIONS = ("precision", "head_rounding", "head_noise", "weight_dropout", "chunks", "seed", "device", "cpu_products",
           "threads", "max_memory")


class FusedStep(torch.autograd.Function):
    """The update happens in forward, with the gradient of the vectors beside it, which backward hands on."""

    @staticmethod
    def forward(context, vectors, head, offsets, labels, want_loss):
        gradient = torch.empty(vectors.shape, dtype=torch.float32, device=vectors.device)
        report = torch.full((2,), torch.nan, device=vectors.device)  # loss and saturations
        with on_device_of(vectors) as stream:
            returned = head._core.step(as_bf16(vectors), offsets, labels, head.lr, head.weight_decay, gradient,
                                       stream, want_loss, report.data_ptr() if vectors.is_cuda else 0)
        if not vectors.is_cuda:
            report = torch.tensor(returned)
        if want_loss:
            head._report = report
        context.save_for_backward(gradient)
        context.dtype = vectors.dtype
        return report[0].clone()  # no view: the caller may scale it in place

    @staticmethod
    def backward(context, by_loss):
        (gradient,) = context.saved_tensors  # of the sum over the batch; the loss is its mean
        return (gradient * (by_loss / gradient.shape[0])).to(context.dtype), None, None, None, None


def as_bf16(vectors: torch.Tensor) -> torch.Tensor:
    """The tensor itself where it is contiguous BF16 already, at an address that a GPU reads well."""
    vectors = vectors.detach().to(torch.bfloat16).contiguous()
    return vectors if vectors.data_ptr() % 64 == 0 else vectors.clone()


@contextlib.contextmanager
def on_device_of(vectors: torch.Tensor) -> Iterator[int]:
    """The current stream of the vectors' GPU, which is the current one inside; 0 on the CPU."""
    if vectors.device.type != "cuda":
        yield 0
        return
    with torch.cuda.device(vectors.device):
        yield torch.cuda.current_stream().cuda_stream


class Head(torch.nn.Module):
    """A head for `labels` labels on vectors of `width` numbers.

    In training mode, ``loss = head(vectors, labels)`` is one step: it updates the head with the rates `lr` and
    `weight_decay` (attributes that may change between steps) and returns the loss of a text, whose backward() goes to the
    encoder. labels: a list of label numbers per vector, or a matrix of 0 and 1. ``head.topk(vectors, k)`` ranks.

    On a GPU it reads the vectors where they lie, waits for the stream that makes them, and that stream waits for it.
    Nothing waits for the GPU: the loss stays there until it is read. Where the gradient is not finite the loss is NaN; on
    the CPU that is a NumericError. ``head(vectors, labels, want_loss=False)`` is a little faster: it returns NaN, whose
    backward() is the same.

    batch : the largest batch; memory is planned for it
    top : the largest k
    options : precision ("bf16", "fp8", "e3m4", "e2m5", ...), head_rounding, head_noise, weight_dropout, seed, threads,
        chunks, cpu_products, max_memory, as of elmo.train
    device : "cpu", "cuda" or "cuda:1", where the weights live from the start to the end
    """

    def __init__(self, labels: int, width: int, *, batch: int = 512, top: int = 100, lr: float = 0.05,
                 weight_decay: float = 0.0, **options: Any):
        super().__init__()
        config = _core.Config()
        config.set("precision", "bf16")
        self.gpu = None  # its number
        if options.get("device") is not None and str(options["device"]).startswith("cuda"):
            self.gpu = torch.device(options["device"]).index
            self.gpu = torch.cuda.current_device() if self.gpu is None else self.gpu
            options["device"] = "cuda"
        for key, value in options.items():
            if key not in OPTIONS:
                raise _core.ConfigError(f"option '{key}' does not belong to Head; it has {', '.join(OPTIONS)}")
            if value is not None:
                config.set(key, text_of(key, value))
        self.labels, self.width, self.lr, self.weight_decay = labels, width, lr, weight_decay
        self.precision = config.get("precision")
        self._report = torch.zeros(2)  # of the last step whose loss was wanted: loss and saturations
        with torch.cuda.device(self.gpu) if self.gpu is not None else contextlib.nullcontext():
            self._core = _core.VectorHead(config, labels, width, batch, top, self.gpu or 0)

    def forward(self, vectors: torch.Tensor, labels: Any, want_loss: bool = True) -> torch.Tensor:
        if not self.training:
            raise RuntimeError("Head.forward is a training step; use topk to rank, or train() to train")
        check_vectors(vectors, self.gpu)
        return FusedStep.apply(vectors, self, *batch_labels(labels), want_loss)

    def topk(self, vectors: torch.Tensor, k: int = 5) -> tuple[torch.Tensor, torch.Tensor]:
        """Scores and numbers of the k best labels of each vector, best first, as torch.topk gives them."""
        check_vectors(vectors, self.gpu)
        with on_device_of(vectors) as stream:
            labels, scores = self._core.topk(as_bf16(vectors), k, stream)
        return torch.from_numpy(scores).to(vectors.device), torch.from_numpy(labels).to(vectors.device)

    def save(self, folder: str | os.PathLike[str], label_names: Any = None) -> None:
        """Writes a run that `elmo predict --vectors`, `elmo serve`, elmo.Run and elmo.Predictor.predict_vectors take.

        Its checkpoint is complete, or as it was before, so it may be written again and again while training goes on.
        label_names : a name per label; without them labels are numbers.
        """
        names = [] if label_names is None else [name_of(name, f"label_names[{i}]") for i, name in enumerate(label_names)]
        self._core.save_run(os.fspath(folder), names)

    def load(self, folder: str | os.PathLike[str]) -> None:
        """Reads the weights of a run, or of one of its checkpoints; labels, width and precision must be these. A
        training that is continued from a run of `save` draws the noise that an unbroken one would."""
        self._core.load(os.fspath(folder))

    @property
    def saturations(self) -> int:
        """Weights that met the largest number of their format, in the last step whose loss was wanted."""
        return int(self._report[1])

    @property
    def plan(self) -> str:
        """The memory of the head and its step, tensor by tensor."""
        return self._core.plan

    def extra_repr(self) -> str:
        return f"labels={self.labels}, width={self.width}, precision={self.precision}"

    # In a state_dict: the files, and the number of steps, which addresses the noise of those that follow.
    def get_extra_state(self) -> dict[str, Any]:
        with tempfile.TemporaryDirectory() as folder:
            self._core.save(folder)
            files = {name: torch.from_file(os.path.join(folder, name), size=os.path.getsize(os.path.join(folder, name)),
                                           dtype=torch.uint8).clone() for name in sorted(os.listdir(folder))}
        return {"steps": self._core.steps, "files": files}

    def set_extra_state(self, state: dict[str, Any]) -> None:
        with tempfile.TemporaryDirectory() as folder:
            for name, content in state["files"].items():
                if os.path.basename(name) != name:
                    raise _core.DataError(f"expected the name of a file of a head, found {name!r}")
                content.numpy().tofile(os.path.join(folder, name))
            self._core.load(folder)
        self._core.steps = state["steps"]


def check_vectors(vectors: Any, gpu: int | None) -> None:
    if not isinstance(vectors, torch.Tensor) or vectors.ndim != 2 or not vectors.is_floating_point():
        shape = f"shape {tuple(vectors.shape)}, {vectors.dtype}" if isinstance(vectors, torch.Tensor) else repr(vectors)
        raise _core.DataError(f"vectors: expected a tensor of floats with a row per text, found {shape}")
    where = [torch.device("cpu")] + ([torch.device("cuda", gpu)] if gpu is not None else [])
    if vectors.device not in where:
        raise _core.DataError(f"vectors: expected a tensor on {' or '.join(map(str, where))}, found one on "
                              f"{vectors.device}; the head's device is chosen when it is made")


def batch_labels(labels: Any) -> tuple[np.ndarray, np.ndarray]:
    if isinstance(labels, torch.Tensor):
        labels = labels.cpu().numpy()
    if isinstance(labels, (list, tuple)):
        if all(isinstance(row, (list, tuple)) for row in labels):
            flat = list(itertools.chain.from_iterable(labels))
            numbers = np.array(flat if set(map(type, flat)) == {int} else [])
            if numbers.dtype.kind == "i":  # the usual case at once: a GPU does not wait for Python
                offsets = np.zeros(len(labels) + 1, np.int64)
                np.cumsum([len(row) for row in labels], out=offsets[1:])
                return offsets, numbers.astype(np.int64)
        return from_lists([whole_numbers(row, f"labels[{i}]") for i, row in enumerate(labels)])
    return true_rows(labels)
