"""What a long call reports, on its way to Python: messages to `logging`, progress to tqdm, lines of the run's log to
callbacks."""
from __future__ import annotations

import logging
import sys
from typing import Any, Callable, Iterable

import numpy as np

from elmo._core import ConfigError, in_words_of_python
from elmo._result import Result, from_json

LEVELS = (logging.DEBUG, logging.INFO, logging.WARNING)  # elmo::Severity
ENDED = (1, 2)  # elmo::ProgressReport::State
Callback = Callable[[Result], Any]


def bar_class(progress: bool | None):
    """tqdm's class, or None for no bars. None: a bar where somebody sees it and tqdm is installed."""
    if progress is None:
        progress = sys.stderr is not None and (sys.stderr.isatty() or "ipykernel" in sys.modules)
        if not progress:
            return None
        try:
            from tqdm.auto import tqdm
        except ImportError:
            return None
        return tqdm
    if not progress:
        return None
    try:
        from tqdm.auto import tqdm
    except ImportError:
        raise ConfigError("progress: its bars are tqdm's, which is not installed: pip install tqdm") from None
    return tqdm


def callbacks_of(value: Callback | Iterable[Callback] | None, name: str) -> list[Callback]:
    found = [] if value is None else list(value) if isinstance(value, Iterable) and not callable(value) else [value]
    for one in found:
        if not callable(one):
            raise TypeError(f"{name}: expected a function of one argument, found {one!r}")
    return found


class Listener:
    """The object that the C++ side calls, on the thread of the call."""

    def __init__(self, progress: bool | None = None, on_log=None, on_validation=None):
        self.bar_class = bar_class(progress)
        self.bars: dict[str, Any] = {}
        self.on_log = callbacks_of(on_log, "on_log")
        self.on_validation = callbacks_of(on_validation, "on_validation")
        self.logger = logging.getLogger("elmo")

    def message(self, severity: int, text: str) -> None:
        self.logger.log(LEVELS[severity], in_words_of_python(text))

    def progress(self, title: str, unit: str, note: str, done: int, total: int, first: int, state: int) -> None:
        if self.bar_class is None:
            return
        bar = self.bars.get(title)
        if bar is None:
            bar = self.bars[title] = self.bar_class(desc=title, unit=" " + unit, total=total or None, initial=first,
                                                    unit_scale=unit == "bytes", leave=title == "training")
        bar.update(done - bar.n)
        if note:
            bar.set_postfix_str(note)
        if state in ENDED:
            bar.close()
            del self.bars[title]

    @property
    def has_callbacks(self) -> bool:
        return bool(self.on_log or self.on_validation)

    def log_line(self, line: str) -> bool:
        """Whether the work shall stop: a callback returned True."""
        entry = from_json(line)
        called = self.on_log + (self.on_validation if entry["event"] == "validation" else [])
        answers = [callback(entry) for callback in called]  # all of them are asked
        return any(isinstance(answer, (bool, np.bool_)) and answer for answer in answers)

    def close(self) -> None:
        for bar in self.bars.values():
            bar.close()
        self.bars.clear()
