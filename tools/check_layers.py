#!/usr/bin/env python3
"""Checks the layer rule: which folder may include which.

The rule is written once, in CMakeLists.txt: elmo_layer(name links...). A folder of src includes itself and
the layers that it links, directly or through others; the backends never include each other. A public header
belongs to the layer that defines its functions (elmo_public(layer headers...)) and may be included wherever
that layer may. elmo/elmo.h, which holds them all, is for programs. The program and the Python module include only public headers.
Public headers hold no CUDA, no JSON and no conditional compilation, and mark their functions and classes ELMO_API.

    tools/check_layers.py [REPOSITORY]
"""
import re
import sys
from pathlib import Path

INCLUDE = re.compile(r'^\s*#\s*include\s+([<"])([^>"]+)[>"]')
# A function or a class at the margin of a public header, which libelmo.so would hide.
UNMARKED = re.compile(r"^(class (?!ELMO_API\b)\w+ (:|\{)|(?!ELMO_API\b|inline\b|template\b|using\b|\s|#|//)[\w:<>,&* ]+ [\w&*]+\((?!.*\{$))")
NOT_PUBLIC = re.compile(r"cuda|nlohmann|json|toml|fmt/|CLI/|dnnl|omp\.h", re.IGNORECASE)


def read_layers(cmake):
    """Layer -> the layers it may include, itself among them."""
    links = {}
    for name, rest in re.findall(r"^elmo_layer\((\S+)([^)]*)\)", cmake, re.MULTILINE):
        links[name] = re.findall(r"\belmo_(\w+)", rest)
    by_target = {name.replace("/", "_"): name for name in links}
    visible = {}

    def close(name):
        if name not in visible:
            visible[name] = {name}
            for target in links[name]:
                if target not in by_target:
                    raise SystemExit(f"CMakeLists.txt: layer {name} links the unknown layer elmo_{target}")
                visible[name] |= close(by_target[target])
        return visible[name]

    for name in links:
        close(name)
    return visible


def read_owners(cmake):
    """Public header -> the layer that defines its functions."""
    owners = {}
    for name, headers in re.findall(r"^elmo_public\((\S+)\s+([^)]*)\)", cmake, re.MULTILINE):
        for header in headers.split():
            owners["elmo/" + header] = name
    return owners


def layer_of(path, layers):
    """The layer with the longest name that the path lies in, or None."""
    found = [name for name in layers if str(path).startswith(name + "/")]
    return max(found, key=len, default=None)


def lines_of(folder):
    for path in sorted(folder.rglob("*")):
        if path.suffix in (".h", ".cpp", ".cu", ".cuh", ".def"):
            for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
                yield path, number, line


def check_source(root, layers, owners):
    for path, number, line in lines_of(root / "src"):
        match = INCLUDE.match(line)
        if not match or match[1] == "<":
            continue
        here = layer_of(path.relative_to(root / "src"), layers)
        where = f"{path.relative_to(root)}:{number}"
        if match[2].startswith("elmo/") and match[2] not in owners:
            yield f"{where}: {match[2]} belongs to no layer; include the header of the noun that is needed"
            continue
        there = owners.get(match[2]) or layer_of(match[2], layers)
        if here is None:
            yield f"{where}: this folder is no layer of CMakeLists.txt"
        elif there is None:
            yield f'{where}: expected an include of the form "layer/file.h", found "{match[2]}"'
        elif there not in layers[here]:
            yield f"{where}: layer {here} may not include {match[2]} of layer {there}"
        elif there != here and there.startswith("backend/") and here.startswith("backend/"):
            yield f"{where}: backends never include each other"


def check_program(root):
    for path, number, line in [*lines_of(root / "apps"), *lines_of(root / "python" / "src")]:
        match = INCLUDE.match(line)
        if match and match[1] == '"' and not match[2].startswith("elmo/") and not (path.parent / match[2]).exists():
            yield f'{path.relative_to(root)}:{number}: the program includes elmo/*.h alone, found "{match[2]}"'


def check_public(root, owners):
    for path in sorted((root / "include" / "elmo").iterdir()):
        if path.name != "elmo.h" and "elmo/" + path.name not in owners:
            yield f"{path.relative_to(root)}: no elmo_public() of CMakeLists.txt names it"
    for path, number, line in lines_of(root / "include"):
        where = f"{path.relative_to(root)}:{number}"
        match = INCLUDE.match(line)
        if match and (NOT_PUBLIC.search(match[2]) or (match[1] == '"' and not match[2].startswith("elmo/"))):
            yield f"{where}: public headers include the standard library and elmo/ alone, found {match[2]}"
        if re.match(r"\s*#\s*(if|ifdef|ifndef|elif)\b", line):
            yield f"{where}: public headers have no conditional compilation"
        if UNMARKED.match(line):
            yield f"{where}: expected ELMO_API before what a program may call, found '{line.strip()}'"


def main():
    root = Path(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).parent.parent).resolve()
    cmake = (root / "CMakeLists.txt").read_text(encoding="utf-8")
    layers, owners = read_layers(cmake), read_owners(cmake)
    problems = [*check_source(root, layers, owners), *check_program(root), *check_public(root, owners)]
    for problem in problems:
        print(problem, file=sys.stderr)
    print(f"Layers: {len(layers)} folders, {len(problems)} problems")
    return 1 if problems or not layers else 0


if __name__ == "__main__":
    sys.exit(main())
