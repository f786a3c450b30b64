"""Keyword arguments to a configuration of the library. Options, their help, checks and wording are the library's."""
from __future__ import annotations

import difflib
import numbers
import os
import textwrap
from typing import Any, Callable, Mapping, TypeVar

from elmo import _core
from elmo._inputs import describe, path_of

# Arguments of theirs that are no options, and what is meant by options that they do not have.
OWN = {"t": ("data", "texts", "labels", "test", "validation", "label_names", "recipe", "progress", "on_log", "on_validation"),
       "p": ("labels", "without"),
       "e": ("data", "texts", "labels", "label_names", "progress"),
       "v": ("host", "port", "tokens", "connections", "queue", "max_texts", "max_body", "deadline", "on_request")}
ADVICE = {"p labels": "; predict_among(texts, labels) answers with some labels only",
          "p without": "; elmo.Predictor(run, without=labels) never answers with these",
          "p k": "; top is the number of labels per text",
          "e top": "; k is the number of labels that count: k=(1, 3, 5)",
          "t top": "; predict and ElmoClassifier take it", "t threshold": "; predict and ElmoClassifier take it"}
# Options of `elmo predict` about its files: here texts come from memory, and answers go there. The build leaves them out of
# the stubs by the same rule (make_options_stub.py).
OF_ANSWERS_FILE = "; predict returns its answers: write them from there, or run 'elmo predict RUN FILE --out ANSWERS'"
IN_ORDER = "; answers stand in the order of the texts: answers[i] are those of texts[i]"
OF_TEXTS_FILE = "; texts come from memory: read them first, as pandas.read_csv does, or run 'elmo predict RUN FILE'"
OF_PREDICTED_FILES = {"out": OF_ANSWERS_FILE, "resume": OF_ANSWERS_FILE, "overwrite": OF_ANSWERS_FILE,
                      "id_column": IN_ORDER, "with_text": IN_ORDER, "input": OF_TEXTS_FILE}
OF_ONE_RUN = ("predictions", "save_predictions", "per_label", "errors")  # options of evaluate that compare refuses
MOST_ANSWERS = 100  # labels of a text above a threshold, unless top says otherwise
Documented = TypeVar("Documented")
# The library's letters of the verbs (include/elmo/options.def) and what they are called here.
VERBS = {"t": "train", "e": "evaluate", "p": "predict", "m": "plan", "c": "calibrate", "k": "Tokenizer",
         "v": "serve", "n": "index", "o": "export", "i": "inspect", "d": "convert"}
# Of `elmo data`: what importing and inspecting take, and converting does not need.
NOT_OF_CONVERT = ("tokenizer", "tokenizer_kind", "vocab_size", "encoder", "precision", "max_length", "windows", "filter")


def whole_number(value: Any, what: str) -> int:
    if not isinstance(value, numbers.Integral) or isinstance(value, bool):
        raise _core.ConfigError(f"{what}: expected a whole number, found {describe(value)}")
    return int(value)


def number(value: Any, what: str) -> float:
    if not isinstance(value, numbers.Real) or isinstance(value, bool):
        raise _core.ConfigError(f"{what}: expected a number, found {describe(value)}")
    return float(value)


def text_of(key: str, value: Any) -> str:
    """The value as the library reads it."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool) or type(value).__name__ == "bool":
        return "true" if value else "false"
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if key == "k" and (isinstance(value, (list, tuple, range)) or getattr(value, "ndim", 0) == 1):
        return ",".join(str(whole_number(k, key)) for k in value)
    if isinstance(value, (list, tuple)) and key == "text_column" and value and all(isinstance(one, (str, int)) for one in value):
        return "+".join(map(str, value))
    if hasattr(value, "item") and getattr(value, "ndim", 1) == 0:  # a NumPy scalar
        value = value.item()
    if isinstance(value, (int, float)):
        return repr(value)
    kind = next((option.type for option in _core.options() if option.key == key), "string")
    expected, advice = {"label_column": ("the name of one column", "; join several to one column of lists first"),
                        "k": ("a whole number, or a list of them", ""),
                        "validation": ("a file", "; give rows in memory as texts=… and labels=…"),
                        "label_weights": ("'root' or a file of lines label<TAB>weight", "; write such a file first"),
                        }.get(key, ({"switch": "True or False", "string": "a text"}.get(kind, "a number"), ""))
    raise _core.ConfigError(f"{key}: expected {expected}, found {describe(value)}{advice}")


def refusal(verb: str, option: _core.OptionInfo) -> str | None:
    """What to do instead of giving the option to the verb; None where it belongs to it."""
    if verb == "p" and option.group == "data":
        return OF_TEXTS_FILE
    if verb not in option.verbs or (verb == "d" and option.key in NOT_OF_CONVERT):
        return ADVICE.get(f"{verb} {option.key}", "")
    return OF_PREDICTED_FILES.get(option.key) if verb == "p" else None


def make_config(verb: str, options: Mapping[str, Any], recipe: Any = None) -> _core.Config:
    """Defaults, then recipes, then the options that are not None, which must belong to the verb."""
    config = _core.Config()
    for one in recipe if isinstance(recipe, (list, tuple)) else [recipe]:
        if one is not None:
            config.load_recipe(path_of(one, "recipe", "the name or the file of a recipe"))
    known = {option.key: option for option in _core.options()}
    for key, value in options.items():
        if value is None:
            continue
        if key not in known or not known[key].verbs:
            if advice := ADVICE.get(f"{verb} {key}"):
                raise _core.ConfigError(f"option '{key}' does not belong to {VERBS[verb]}{advice}")
            if key in OWN.get(verb, ()):
                raise _core.ConfigError(f"option '{key}' belongs to {VERBS[verb]} itself, not to this call; leave it out")
            if near := difflib.get_close_matches(key, OWN.get(verb, ()), 1, 0.75):
                raise _core.ConfigError(f"unknown option '{key}' (did you mean '{near[0]}'?)")
            config.set(key, "")  # the library words what it does not know
        if (advice := refusal(verb, known[key])) is not None:
            raise _core.ConfigError(f"option '{key}' does not belong to {VERBS[verb]}{advice}")
        config.set(key, text_of(key, value))
    return config


def document(verb: str, without: tuple[str, ...] = ()) -> Callable[[Documented], Documented]:
    """A decorator: appends the verb's options, from the option list, to a docstring."""

    def documented(function: Documented) -> Documented:
        lines = [textwrap.dedent(function.__doc__ or "").rstrip(), "", "Options (None leaves the default):", ""]
        for option in _core.options():
            if refusal(verb, option) is not None or option.key in without:
                continue
            default = option.default if option.default != "" else '""'
            lines += [f"{option.key} : {option.type}, default {default}",
                      *textwrap.wrap(option.help, 100, initial_indent="    ", subsequent_indent="    ")]
        function.__doc__ = "\n".join(lines) + "\n"
        return function

    return documented
