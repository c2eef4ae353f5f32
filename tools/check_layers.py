#!/usr/bin/python3
"""Checks src/ against layers.txt: who may include whom, and which words belong to one folder alone.

usage: check_layers.py [ROOT] | check_layers.py --self-test

`folder: others` in layers.txt lists what a folder may include beside itself; `only F: pattern` keeps a pattern to folder F
(`nowhere` for none). Tests (*_test.cpp, *_fuzz.cpp) compose freely: only `only nowhere` holds for them.
"""
# SPDX-License-Identifier: Apache-2.0
import pathlib
import re
import sys
import tempfile

SUFFIXES = {".h", ".cpp", ".cu", ".cuh", ".in"}
INCLUDE = re.compile(r'^\s*#\s*include\s*"([^"]+)"')
TEST = re.compile(r"_(test|fuzz)\.cpp$")


def read_layers(path):
    """The allowed folders of each folder, the patterns as (place, compiled pattern), and complaints about the file."""
    allowed, only, problems = {}, [], []
    for number, line in enumerate(path.read_text().splitlines(), 1):
        line = line.split("#")[0].rstrip() if not line.startswith("only ") else line.rstrip()
        if not line:
            continue
        head, _, rest = line.partition(":")
        if head.startswith("only "):
            only.append((head[5:].strip(), re.compile(rest.strip())))
            continue
        others = rest.split()
        for other in others:
            if other not in allowed:
                problems.append(f"{path.name}:{number}: {head} may include {other}, which is not a folder above it")
        allowed[head.strip()] = {head.strip(), *others}
    return allowed, only, problems


def check_line(line, folder, home, allowed, only, is_test):
    """What is wrong with one line of a file that lies in src/`home`, in the folder `folder` of layers.txt."""
    match = INCLUDE.match(line)
    if match and not is_test:
        other = match.group(1).split("/")[0]
        if other not in allowed:
            yield f'"{match.group(1)}" is not written from src/'
        elif other not in allowed[folder]:
            yield f"{folder} may not include {other}"
    for place, pattern in only:
        if is_test and place != "nowhere":
            continue
        found = pattern.search(line)
        if found and not (home + "/").startswith(place + "/"):
            yield f"'{found.group(0)}' belongs to {place} alone"


def check(root):
    """All complaints about a tree, as lines `file:line: what`."""
    allowed, only, problems = read_layers(root / "layers.txt")
    for path in sorted((root / "src").rglob("*")):
        if path.suffix not in SUFFIXES or not path.is_file():
            continue
        name = path.relative_to(root).as_posix()
        home = path.parent.relative_to(root / "src").as_posix()
        folder = home.split("/")[0]
        if folder not in allowed:
            problems.append(f"{name}:1: layers.txt has no folder {folder}")
            continue
        is_test = bool(TEST.search(path.name))
        for number, line in enumerate(path.read_text().splitlines(), 1):
            for what in check_line(line, folder, home, allowed, only, is_test):
                problems.append(f"{name}:{number}: {what}")
    return problems


def self_test():
    """Plants violations in a folder of its own, and expects exactly those to be found."""
    layers = "base:\nops: base\nserver: base\nonly server/http: \\bsocket\\(\nonly nowhere: \\bforbidden\\b\n"
    good = {
        "src/base/a.h": '#include <vector>\n#include "base/b.h"\n',
        "src/ops/a.cpp": '#include "base/a.h"\n#include "ops/a.h"\n',
        "src/ops/a_test.cpp": '#include "server/a.h"\nsocket(1);\n',
        "src/server/http/a.cpp": "int s = socket(1);\n",
    }
    planted = [
        ("src/base/c.h", 2, '#pragma once\n#include "ops/a.h"\n', "base may not include ops"),
        ("src/ops/c.cpp", 1, '#include "b.h"\n', "not written from src/"),
        ("src/ops/d.cpp", 3, "\n\nint s = socket(1);\n", "belongs to server/http alone"),
        ("src/server/httpx/a.cpp", 1, "int s = socket(1);\n", "belongs to server/http alone"),
        ("src/ops/d_test.cpp", 1, "forbidden();\n", "belongs to nowhere alone"),
        ("src/stray/a.h", 1, "\n", "layers.txt has no folder stray"),
    ]
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder)

        def write(name, text):
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_text(text)

        write("layers.txt", layers)
        for name, text in good.items():
            write(name, text)
        assert check(root) == [], check(root)
        for name, line, text, what in planted:
            write(name, text)
            problems = check(root)
            assert len(problems) == 1 and problems[0].startswith(f"{name}:{line}: ") and what in problems[0], (name, problems)
            (root / name).unlink()
        write("layers.txt", "base: ops\nops: base\nserver: base\n")
        assert any("not a folder above it" in problem for problem in check(root)), "an upward layer was not caught"
    print(f"check_layers: {len(planted) + 1} planted violations caught")
    return 0


def main():
    if sys.argv[1:] == ["--self-test"]:
        return self_test()
    problems = check(pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else "."))
    print("\n".join(problems + [f"check_layers: {len(problems)} violations"]))
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
