#!/usr/bin/env python3
"""Compares the ids of `elmo tokenize` with those of the Hugging Face library, line by line.

    tools/check_tokenizer.py --tokenizer FOLDER texts.txt

FOLDER holds a tokenizer.json (or is that file). Prints the number of lines that differ and the first few of them;
exits 0 when none does, 1 otherwise. Needs the Python package `tokenizers`.
"""
import argparse
import os
import subprocess
import sys

DEFAULT_ELMO = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "build", "bin", "elmo")


def read_lines(path):
    with open(path, "rb") as file:
        lines = file.read().split(b"\n")
    if lines and lines[-1] == b"":
        lines.pop()
    return [line.removesuffix(b"\r").decode("utf-8", errors="replace") for line in lines]


def elmo_ids(elmo, tokenizer, path):
    run = subprocess.run([elmo, "tokenize", "--tokenizer", tokenizer, path], stdout=subprocess.PIPE, text=True)
    if run.returncode != 0:
        sys.exit(f"{elmo} tokenize failed with exit code {run.returncode}")
    return [[int(word) for word in line.split()] for line in run.stdout.splitlines()]


def hugging_face_ids(tokenizer, lines, batch=4096):
    from tokenizers import Tokenizer

    path = os.path.join(tokenizer, "tokenizer.json") if os.path.isdir(tokenizer) else tokenizer
    loaded = Tokenizer.from_file(path)
    loaded.no_truncation()
    loaded.no_padding()
    for start in range(0, len(lines), batch):
        for encoding in loaded.encode_batch(lines[start:start + batch]):
            yield encoding.ids


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", help="a text per line, UTF-8")
    parser.add_argument("--tokenizer", required=True, help="folder with a tokenizer.json, or the file")
    parser.add_argument("--elmo", default=DEFAULT_ELMO, help="the program (default: build/bin/elmo)")
    parser.add_argument("--show", type=int, default=5, help="how many differing lines to print (default: 5)")
    arguments = parser.parse_args()

    lines = read_lines(arguments.file)
    ours = elmo_ids(arguments.elmo, arguments.tokenizer, arguments.file)
    if len(ours) != len(lines):
        sys.exit(f"{arguments.file} has {len(lines)} lines, elmo printed {len(ours)}")
    different = 0
    for number, (line, mine, theirs) in enumerate(zip(lines, ours, hugging_face_ids(arguments.tokenizer, lines)), 1):
        if mine == theirs:
            continue
        different += 1
        if different <= arguments.show:
            print(f"line {number}: {line[:200]!r}\n  elmo         {mine[:40]}\n  Hugging Face {theirs[:40]}")
    print(f"{different} of {len(lines)} lines differ")
    return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main())
