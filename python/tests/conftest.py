"""A small problem that is learnt in a moment, and options that make every run of the tests short."""
import os
import random
import subprocess
import sys
from pathlib import Path

import pytest

import elmo

COLOURS = ["red", "green", "blue", "yellow"]
THINGS = ["apple", "stone", "river", "house", "bird"]
SMALL = dict(encoder="bag", width=16, batch_size=16, vocab_size=300, epochs=20, encoder_lr=0.02, head_lr=0.2, dropout=0.0,
             precision="bf16", augment="none", threads=1, seed=7)
SHARED = Path(os.environ.get("ELMO_SHARED", Path(__file__).parents[3] / "shared"))


def rows(count=200, seed=1):
    pick = random.Random(seed)
    texts, labels = [], []
    for i in range(count):
        colour, thing = pick.choice(COLOURS), pick.choice(THINGS)
        texts.append(f"the {colour} {thing} number {i}")
        labels.append([f"colour {colour}", thing])
    return texts, labels


def elmo_program(*arguments, **options):
    """The console script of this environment."""
    program = Path(sys.executable).with_name("elmo")
    return subprocess.run([program, *map(str, arguments)], capture_output=True, text=True, check=False, **options)


@pytest.fixture(scope="session")
def texts():
    return rows()[0]


@pytest.fixture(scope="session")
def labels():
    return rows()[1]


@pytest.fixture(scope="session")
def run(texts, labels):
    return elmo.train(texts=texts, labels=labels, **SMALL)
