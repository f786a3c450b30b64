"""The program `elmo`, as the console script and as `python -m elmo`: this process becomes it."""
import os
import sys
from pathlib import Path


def main():
    program = Path(__file__).with_name("elmo")
    os.execv(program, ["elmo", *sys.argv[1:]])


if __name__ == "__main__":
    main()
