"""Predictor: texts in, labels with scores and probabilities out, as arrays. Tokenizer: texts in, token ids out."""
from __future__ import annotations

import logging
import os
import sys
from typing import TYPE_CHECKING, Any, Iterator, NamedTuple, Sequence, overload

import numpy as np

from elmo import _core
from elmo._config import document, make_config, whole_number
from elmo._inputs import chunks, csr_type, describe, folder_of, iterate, listed_names, name_of, path_of, texts_of
from elmo._listener import LEVELS
from elmo._result import Result, from_json

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from elmo._options import PredictOptions, TokenizerOptions


MOST_SAID = 100  # messages of predictions that are remembered, the last ones, so that they are said once


class Prediction(NamedTuple):
    """One answer: a label by number and name (of one without a name the number, as text), its probability and its score
    (the logit)."""

    label: int
    name: str
    probability: float
    score: float


class Answers(Sequence["list[Prediction]"]):
    """The best labels of texts, best first: ``answers[i]`` is the list of text i.

    The same as arrays: those of text i stand at offsets[i]:offsets[i + 1] of labels, scores and probabilities.
    """

    def __init__(self, offsets: np.ndarray, labels: np.ndarray, scores: np.ndarray, probabilities: np.ndarray,
                 predictor: _core.Predictor | KnownNames):
        self.offsets, self.labels, self.scores, self.probabilities = offsets, labels, scores, probabilities
        self._predictor = predictor

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @property
    def num_labels(self) -> int:
        """Labels of the run."""
        return self._predictor.num_labels

    @overload
    def __getitem__(self, index: int) -> list[Prediction]: ...
    @overload
    def __getitem__(self, index: slice) -> list[list[Prediction]]: ...
    def __getitem__(self, index):
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        if not -len(self) <= index < len(self):
            raise IndexError(f"expected the number of a text below {len(self)}, found {index}")
        index %= len(self)
        there = range(self.offsets[index], self.offsets[index + 1])
        return [Prediction(int(self.labels[i]), self._name(int(self.labels[i])), float(self.probabilities[i]),
                           float(self.scores[i])) for i in there]

    def __repr__(self) -> str:
        return f"<elmo.Answers to {len(self)} texts>"

    @property
    def names(self) -> list[list[str]]:
        """Names only: a list per text."""
        known = {label: self._name(label) for label in np.unique(self.labels).tolist()}
        flat = [known[label] for label in self.labels.tolist()]
        return [flat[self.offsets[i]:self.offsets[i + 1]] for i in range(len(self))]

    def to_csr(self, values: str = "probabilities", columns: Any = None):
        """A SciPy matrix with a row per text and a column per label of the run, in the order of label_names.

        values : or "scores"
        columns : the labels of the columns instead, in their order: label_names of train, or range(n) where the run
            was trained on a matrix of n columns without names. Answers of other labels are left out; columns none of
            which is a label of the run are an error.
        """
        csr_matrix = csr_type("to_csr: its matrix is one of")
        if values not in ("probabilities", "scores"):
            raise _core.ConfigError(f"values: expected 'probabilities' or 'scores', found {values!r}")
        matrix = csr_matrix((getattr(self, values), self.labels, self.offsets),
                            shape=(len(self), self._predictor.num_labels), copy=True)  # it is sorted in place
        if columns is not None:
            place: dict[str, int] = {}
            if isinstance(columns, (set, frozenset)):
                iterate(columns, "columns", "names or numbers")  # which says that they need an order
            for name in listed(columns, "columns"):
                if name in place:
                    raise _core.DataError(f"columns: expected every label once, found {name!r} more than once")
                place[name] = len(place)
            names = [self._name(label) for label in range(self._predictor.num_labels)]
            pairs = [(label, place[name]) for label, name in enumerate(names) if name in place]
            if not pairs and isinstance(self._predictor, _core.Predictor):  # a pickle knows the names that it answers with
                raise _core.DataError(f"columns: expected labels of the run, such as {names[0]!r}, found none of them in "
                                      f"{listed_names(list(place))}; give label_names of the matrix that trained it, or "
                                      "run.label_names")
            labels, places = np.array(pairs, dtype=np.int64).reshape(-1, 2).T
            order = csr_matrix((np.ones(len(pairs), dtype=matrix.dtype), (labels, places)),
                               shape=(matrix.shape[1], len(place)))
            matrix = (matrix @ order).tocsr()
        matrix.sort_indices()
        return matrix

    def _name(self, label: int) -> str:
        return self._predictor.label_name(label) or str(label)

    def __getstate__(self) -> dict[str, Any]:
        """Without the run: the names that are answered are enough."""
        names = {label: self._name(label) for label in np.unique(self.labels).tolist()}
        return {**self.__dict__, "_predictor": KnownNames(self.num_labels, names)}


class KnownNames(NamedTuple):
    """What is left of a run in a pickle of its answers."""

    num_labels: int
    names: dict[int, str]

    def label_name(self, label: int) -> str:
        return self.names.get(label, "")


def labels_per_text(top: Any) -> int:
    if (number := whole_number(top, "top")) < 1:
        raise _core.ConfigError(f"top: expected 1 or more labels, found {number}")
    return number


def listed(labels: Any, what: str) -> list[str]:
    if labels is None:
        return []
    if isinstance(labels, (set, frozenset)):
        labels = sorted(labels, key=str)
    names = [name_of(label, f"{what}[{i}]") for i, label in enumerate(iterate(labels, what, "names or numbers"))]
    if not names:
        raise _core.DataError(f"{what}: expected labels, found none")
    return names


def open_run(run: Any, options: Any, labels: Any = None, without: Any = None) -> _core.Predictor:
    return _core.Predictor(folder_of(run), make_config("p", options), listed(labels, "labels"),
                           listed(without, "without"))


class Predictor:
    """A run that answers texts. Several threads may share one: they are answered in turn."""

    @document("p")
    def __init__(self, run: Any, *, labels: Any = None, without: Any = None, **options: Unpack[PredictOptions]):
        """Opens a run: a Run, or its folder.

        labels : answer with these only, by name, or by number where no label is called so; only their weights are read.
        without : never answer with these.
        """
        self._options, self._said = options, getattr(run, "_said", {})
        self._labels, self._without = listed(labels, "labels"), listed(without, "without")
        self._core, self._read = open_run(run, options, self._labels or None, self._without or None), []
        # A temporary run stays while it is used; a folder is the same one after a change of the working folder.
        self._run = run if hasattr(run, "_said") else os.path.abspath(run)
        self._log_messages()

    @classmethod
    def _of(cls, run: Any, options: Any, core: _core.Predictor, read: list[Any]) -> Predictor:
        predictor = cls.__new__(cls)
        predictor._run, predictor._options, predictor._core, predictor._said = run, options, core, run._said
        predictor._read, predictor._labels, predictor._without = read, [], []
        predictor._log_messages()
        return predictor

    def _log_messages(self, cut: int = 0, why_not: str = "") -> None:
        """What the library had to say, how many answers were cut and why training texts are missing, to the logger: once,
        also where a run is opened for every call."""
        messages = [(LEVELS[severity], _core.in_words_of_python(text)) for severity, text in self._core.take_messages()]
        if cut > 0:
            texts = f"{cut} text{'' if cut == 1 else 's'}"
            found = (f"{texts} whose {self._core.top} best labels are all above the lowest threshold, so that others may be "
                     "above theirs" if self._options.get("label_thresholds") else
                     f"{texts} with {self._core.top} labels above the threshold, and perhaps more")
            messages.append((logging.WARNING, found + ": top= raises this limit"))
        if why_not:
            messages.append((logging.WARNING, "training texts are not shown: " + why_not))
        for level, text in messages:
            if text not in self._said:
                self._said[text] = None
                while len(self._said) > MOST_SAID:
                    self._said.pop(next(iter(self._said), text), None)
                logging.getLogger("elmo").log(level, text)

    def predict(self, texts: Any) -> Answers:
        """The best labels of each text; any number of texts."""
        parts: list[tuple[np.ndarray, ...]] = []
        offsets = [np.zeros(1, np.int64)]
        cut = 0
        for first, chunk in numbered(texts):
            *part, more = self._core.predict(chunk, first)
            cut += more
            offsets.append(part[0][1:] + offsets[-1][-1])
            parts.append(tuple(part[1:]))
        self._log_messages(cut)
        labels, scores, probabilities = (
            np.concatenate([part[i] for part in parts] or [np.zeros(0, kind)])
            for i, kind in enumerate((np.int64, np.float32, np.float32)))
        return Answers(np.concatenate(offsets), labels, scores, probabilities, self._core)

    def predict_vectors(self, vectors: Any) -> Answers:
        """The same of vectors in the place of texts, a row per text: what embed gives, or those of the encoder that a
        head of elmo.torch was trained on. They are rounded to BF16."""
        if hasattr(vectors, "detach"):  # a tensor, perhaps of BF16, which NumPy does not have
            vectors = vectors.detach().float().cpu()
        try:
            matrix = np.ascontiguousarray(vectors, np.float32)
        except (TypeError, ValueError):  # texts, rows of different lengths
            raise _core.DataError(f"vectors: expected a matrix of numbers, found {describe(vectors)}") from None
        if matrix.ndim != 2:
            raise _core.DataError(f"vectors: expected a matrix with a row per text, found the shape {matrix.shape}")
        *answers, cut = self._core.predict_vectors(matrix)
        self._log_messages(cut)
        return Answers(*answers, self._core)

    def predict_among(self, texts: Any, labels: Any) -> Answers:
        """The best of these labels, by name or number; only their weights are read. Those that this Predictor never
        answers with are refused."""
        wanted = listed(labels, "labels")
        asked = set(self._core.find_labels(wanted, "labels"))
        never = asked & set(self._core.find_labels(self._without, "without"))
        if self._labels:
            never |= asked - set(self._core.find_labels(self._labels, "labels"))
        if never:
            names = [self._core.label_name(label) or str(label) for label in sorted(never)]
            raise _core.DataError(f"labels: expected labels that this Predictor answers with, found {listed_names(names)}; leave them "
                                  "out, or ask the run (run.predict_among)")
        return Predictor(self._run, labels=wanted or None, **self._options).predict(texts)

    def embed(self, texts: Any) -> np.ndarray:
        """The vectors that the run's encoder makes of the texts, a row per text."""
        parts = [self._core.embed(chunk, first) for first, chunk in numbered(texts)]
        self._log_messages()
        return np.concatenate(parts) if parts else self._core.embed([], 0)

    def explain(self, text: str, labels: Any = None, top: int | None = None, nearest: int = 5) -> Result:
        """Which words of a text carried its `top` best labels (3, or all where this Predictor answers with fewer), or these
        labels, by name or number, all of them or the `top` best.

        The result has `words` (word, begin, end: it is text[begin:end]) and `labels`: the answers, with the
        `effects` of the words. An effect is the label's score less its score in the text without that word: above 0,
        the word speaks for the label.

        Where answers also follow the nearest training texts (a linear run with neighbours), it has `nearest` too: the
        `nearest` (5, up to 100) most like the text, best first, each with similarity, training_text (its number), text,
        labels and names. Texts are read from the run's data, if that is still what it was, else they are "", with a
        warning. 0 asks for none.
        """
        if not isinstance(text, str):
            raise _core.DataError(f"text: expected a str, found {describe(text)}")
        top = None if top is None else labels_per_text(top)
        if top is not None and labels is None and top > self._core.top:
            raise _core.ConfigError(f"top: expected up to {self._core.top} labels, as this Predictor answers with, found {top}; "
                                    f"open it with top={top}")
        if top is None and labels is None:
            top = min(3, self._core.top)
        if whole_number(nearest, "nearest") < 0:
            raise _core.ConfigError(f"nearest: expected 0 or more training texts, found {nearest}")
        config, why_not = None, ""
        if nearest and self._core.has_nearest([text]):
            config, why_not = self._with_training_rows()
        result = from_json(self._core.explain([text], listed(labels, "labels"), top, min(int(nearest), sys.maxsize), config))
        self._log_messages(why_not=why_not)
        for label in result["labels"]:
            label["name"] = label["name"] or str(label["label"])
        for near in result.get("nearest", ()):
            near["names"] = [name or str(label) for label, name in zip(near["labels"], near["names"])]
        if not text.isascii():  # the library counts bytes
            begins = np.frombuffer(text.encode(), np.uint8) & 0xC0 != 0x80
            place = np.concatenate([[0], np.cumsum(begins)])
            for word in result["words"]:
                word.update(begin=int(place[word["begin"]]), end=int(place[word["end"]]))
        return result

    def _with_training_rows(self) -> tuple[_core.Config | None, str]:
        """The options, with copies of the rows that trained the run where it has them or only Python reads them, which it
        does once for what is open; or why there are none."""
        from elmo._run import set_own_data
        if not self._read:
            config = make_config("p", self._options)
            try:
                kept = set_own_data(config, self._run, "train on a file of them to see them, or ask for none (nearest=0)")
            except (ValueError, OSError) as error:  # pyarrow's own are such too
                return None, str(error)
            if not kept:
                return config, ""
            self._read[:] = config, kept
        return self._read[0], ""

    @property
    def num_labels(self) -> int:
        """Labels of the run."""
        return self._core.num_labels

    @property
    def num_answers(self) -> int:
        """Labels that may be answered."""
        return self._core.num_answers

    @property
    def calibrated(self) -> bool:
        """Whether probabilities are those of Run.calibrate."""
        return self._core.calibrated

    @property
    def label_names(self) -> list[str]:
        """Names of the run's labels, by number; of labels without names their numbers, as text."""
        return [self._core.label_name(label) or str(label) for label in range(self.num_labels)]


def numbered(texts: Any) -> Iterator[tuple[int, list[str]]]:
    """Chunks of texts with the number of their first: between them Python sees Ctrl-C."""
    first = 0
    for chunk in chunks(texts_of(texts)):
        yield first, chunk
        first += len(chunk)


class Tokenizer:
    """The tokenizer of a Hugging Face folder, a tokenizer.json or a run."""

    @document("k", without=("tokenizer", "encoding", "allow_invalid_utf8"))
    def __init__(self, path: str | os.PathLike[str], **options: Unpack[TokenizerOptions]):
        """Loads a tokenizer; texts are cut at max_length tokens, special ones included."""
        config = make_config("k", options)
        config.set("tokenizer", path_of(path, "path", "a folder of a tokenizer, a tokenizer.json or a run"))
        self._core = _core.TextEncoder(config)

    def encode(self, text: str) -> list[int]:
        """Token ids of one text."""
        if not isinstance(text, str):
            raise _core.DataError(f"text: expected a str, found {describe(text)}")
        return self._core.encode([text], 0)[1].tolist()

    def encode_batch(self, texts: Any) -> list[np.ndarray]:
        """Token ids of each text."""
        ids: list[np.ndarray] = []
        for first, chunk in numbered(texts):
            offsets, values = self._core.encode(chunk, first)
            ids.extend(np.split(values, offsets[1:-1]))
        return ids
