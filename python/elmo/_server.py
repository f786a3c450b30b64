"""A server of runs, inside this process: the same as `elmo serve`."""
from __future__ import annotations

import logging
import os
import threading
import weakref
from typing import TYPE_CHECKING, Any, Callable

from elmo import _core
from elmo._config import document, make_config
from elmo._inputs import describe, folder_of, is_path
from elmo._listener import LEVELS
from elmo._result import Result, from_json

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from elmo._options import ServeOptions


class Server:
    """Runs behind HTTP, until stop(), the end of a `with` block, or the end of the program. elmo.serve returns one."""

    def __init__(self, runs: list[Any], config: _core.Config, options: _core.ServeOptions,
                 on_request: Callable[[Result], Any] | None):
        self._runs = runs  # temporary runs stay while they are served
        self._host = options.host
        listeners = [] if on_request is None else [on_request]
        # The same folders after a change of the working folder.
        self._core = _core.Server([os.path.abspath(folder_of(run)) for run in runs], config, options,
                                  None if on_request is None else lambda line: tell(listeners, line), log_message)
        self._ended = threading.Event()
        self._stop = weakref.finalize(self, end, self._core, self._ended, listeners)

    @property
    def port(self) -> int:
        """Where it listens; of port=0, the one that was free."""
        return self._core.port

    @property
    def url(self) -> str:
        """The address of its page; requests go below it: url + "v1/predict"."""
        host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(self._host, self._host)
        return f"http://{f'[{host}]' if ':' in host else host}:{self.port}/"

    def reload(self) -> int:
        """Takes new checkpoints now, and returns how many; the server also looks every second. One that cannot be loaded is
        a warning of the logger `elmo`, and the old one stays."""
        return self._core.reload()

    def stop(self) -> None:
        """Accepts nothing more, answers every request that has begun to arrive, and ends."""
        self._stop()

    def wait(self) -> None:
        """Waits until the server is stopped by another thread, or by Ctrl-C, which stops it."""
        try:
            while not self._ended.wait(3600):
                pass
        except KeyboardInterrupt:
            self.stop()

    def __enter__(self) -> Server:
        return self

    def __exit__(self, *_: Any) -> None:
        self.stop()

    def __repr__(self) -> str:
        return f"<elmo.Server {self.url}{'' if self._stop.alive else ', stopped'}>"


def tell(listeners: list[Callable[[Result], Any]], line: str) -> None:
    for listener in listeners:
        listener(from_json(line))


def log_message(severity: int, text: str) -> None:
    logging.getLogger("elmo").log(LEVELS[severity], _core.in_words_of_python(text))


def end(core: _core.Server, ended: threading.Event, listeners: list[Callable[[Result], Any]]) -> None:
    core.stop()
    ended.set()
    listeners.clear()  # which may know the server: Python does not see such a ring, since the core is not its own


@document("v")
def serve(*runs: Any, host: str | None = None, port: int | None = None, tokens: list[str] | None = None,
          connections: int | None = None, queue: int | None = None, max_texts: int | None = None,
          max_body: int | None = None, deadline: float | None = None,
          on_request: Callable[[Result], Any] | None = None, **options: Unpack[ServeOptions]) -> Server:
    """Answers texts over HTTP from this process, with a page for browsers, and returns at once.

    runs : Run objects or folders; of several, requests name one by the name of its folder.
    host, port : where it listens: 127.0.0.1 and 8080; port=0 takes any that is free.
    tokens : a client must show one of these; none: every client of this machine may ask.
    connections, queue, max_texts, max_body, deadline : limits, as of `elmo serve`
    on_request : called with the line of the log of each request, which has no texts; from threads of the server.
    """
    if not runs:
        raise _core.ConfigError("runs: expected a run to serve, found none")
    for run in runs:
        if not is_path(run):
            raise _core.ConfigError(f"runs: expected a Run or its folder, found {describe(run)}; several are given one by "
                                    "one: serve(a, b)")
    if isinstance(tokens, (str, bytes)):  # its letters would be tokens
        raise _core.ConfigError("tokens: expected a list of texts, found one text; write [token]")
    listening = _core.ServeOptions()
    for name, value in (("host", host), ("port", port), ("tokens", tokens), ("connections", connections),
                        ("queue", queue), ("max_texts", max_texts), ("max_body", max_body), ("deadline", deadline)):
        if value is None:
            continue
        try:
            setattr(listening, name, list(value) if name == "tokens" else value)
        except TypeError:
            of = {"host": "an address", "tokens": "a list of texts", "deadline": "a number of seconds"}.get(name, "a whole number")
            found = f"a {type(value).__name__}" if name == "tokens" else describe(value)  # they are secret
            raise _core.ConfigError(f"{name}: expected {of}, found {found}") from None
    return Server(list(runs), make_config("v", options), listening, on_request)
