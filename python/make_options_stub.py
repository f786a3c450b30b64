"""Writes _options.pyi: the options of train, evaluate, plan and so on as TypedDicts, from the option list of the
module. Run by the build.

    python make_options_stub.py OUT
"""
import sys

import _core

TYPES = {"switch": "bool", "integer": "int", "number": "float", "string": "str"}
CLASSES = {"TrainOptions": "t", "EvaluateOptions": "e", "PredictOptions": "p", "PlanOptions": "m",
           "CalibrateOptions": "c", "TokenizerOptions": "k", "ServeOptions": "v", "IndexOptions": "n",
           "ExportOptions": "o", "InspectOptions": "i", "ConvertOptions": "d"}
# Of predictions: options about files, which Python does not take (elmo/_config.py).
OF_FILES = ("out", "resume", "overwrite", "id_column", "with_text", "input")
# What `elmo data` takes and converting does not need (likewise).
NOT_OF_CONVERT = ("tokenizer", "tokenizer_kind", "vocab_size", "encoder", "precision", "max_length", "windows", "filter")


def belongs(option, verb):
    if verb == "p" and (option.group == "data" or option.key in OF_FILES):
        return False
    if verb == "d" and option.key in NOT_OF_CONVERT:
        return False
    return verb in option.verbs and option.key not in ("data", "out", "validation", "tokenizer")


def type_of(option):
    kind = TYPES[option.type]
    if option.key == "k":
        return "str | list[int]"
    if option.type == "string":
        return "str | os.PathLike[str]"
    return f'{kind} | Literal["auto"]' if option.default == "auto" else kind


def main():
    lines = ["# Made by make_options_stub.py from the option list.", "import os", "from typing import Literal, TypedDict", ""]
    for name, verb in CLASSES.items():
        lines += ["", f"class {name}(TypedDict, total=False):"]
        for option in _core.options():
            if belongs(option, verb):
                lines.append(f"    {option.key}: {type_of(option)} | None")
    with open(sys.argv[1], "w", encoding="utf-8") as file:
        file.write("\n".join(lines) + "\n")


main()
