#!/usr/bin/python3
"""Checks the style that a formatter cannot: first lines, lengths, names, words that must not stand in the tree, size.

usage: check_style.py [ROOT] [--warnings] | check_style.py --self-test

Violations fail. Warnings (long files and functions, many parameters) are counted, and listed with --warnings.
"""
# SPDX-License-Identifier: Apache-2.0
import pathlib
import re
import subprocess
import sys
import tempfile

LIMIT_BYTES = 42 * 1024 * 1024
WARN_LINES, FAIL_LINES, EXCUSED_LINES = 400, 600, 800
WARN_FUNCTION, WARN_PARAMETERS = 60, 4
SOURCE = {".h", ".cpp", ".cu", ".cuh"}
SCRIPT = {".py", ".sh"}
HEADER = {".h", ".cuh"}
TEXT = SOURCE | SCRIPT | {".md", ".txt", ".cmake", ".in", ".yml", ".json"}
SKIPPED = re.compile(r"^(build[^/]*|\.git|\.cache|tests/npm/node_modules|node_modules)(/|$)|__pycache__")

SPDX = "SPDX-License-Identifier: Apache-2.0"
OPEN_WORDS = re.compile(r"\b(TO" r"DO|FIX" r"ME|XX" r"X)\b|(?i:not implement" r"ed\b|unimplement" r"ed\b)")
MACHINE_PATH = re.compile(r"(?<![\w.$}\])-])/(work|tmp|home|root|farm)/")
CONDITIONAL = re.compile(r"^\s*#\s*(if|ifdef|ifndef|elif|else|endif)\b")
TYPE = re.compile(r"^\s*(?:class|struct|enum class|enum|union|using)\s+(\w+)\b(?!\s*::)")
BAD_TYPE = re.compile(r"(Impl|Manager|Helper|Helpers|Util|Utils|Base|New|V2)$|^New[A-Z]")
FILE_NAME = re.compile(r"^[a-z0-9_]+(\.[a-z0-9]+)*$")
NOT_FUNCTION = re.compile(r"^\s*(namespace|struct|class|enum|union|extern|if|for|while|switch|else|do|try|catch|case|return)\b")


def listed_files(root):
    """The files of the tree: what git tracks or would track; without a repository, everything but build folders."""
    command = ["git", "-C", str(root), "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    try:
        result = subprocess.run(command, capture_output=True, check=False)
        names = [name for name in result.stdout.decode().split("\0") if name] if result.returncode == 0 else []
    except FileNotFoundError:
        names = []
    if not names:
        names = [path.relative_to(root).as_posix() for path in root.rglob("*") if not path.is_dir()]
    return sorted(name for name in names if not SKIPPED.search(name) and (root / name).is_file())


def count_parameters(signature):
    """Parameters of the function that a signature declares: commas outside brackets in its first parentheses."""
    depth, commas, start = 0, 0, signature.index("(")
    for position, character in enumerate(signature[start:], start):
        if character in "([{<":
            depth += 1
        elif character in ")]}>" and signature[position - 1] != "-":
            depth -= 1
            if depth == 0:
                return commas + 1 if signature[start + 1 : position].strip() not in ("", "void") else 0
        elif character == "," and depth == 1:
            commas += 1
    return 0


def functions(lines):
    """(first line, lines, parameters) of every function, judging by the indentation that the formatter gives it."""
    for end_of_head, line in enumerate(lines):
        if not line.endswith("{"):
            continue
        head = end_of_head
        # A signature that goes over lines continues deeper than it begins; what a constructor begins with follows it.
        while head > 0 and (
            lines[head].lstrip().startswith(": ")
            or (not re.match(r"^\s*[\w~\[:<>*&, ]+\(", lines[head]) and lines[head - 1].strip()[-1:] in ",(")
        ):
            head -= 1
        signature = " ".join(part.strip() for part in lines[head : end_of_head + 1])
        if signature.count("(") != signature.count(")"):
            continue  # the end of a condition
        if NOT_FUNCTION.match(signature) or not re.match(r"^[\w~\[:<>*&, =]+\(.*\)", signature) or "](" in signature:
            continue
        if re.match(r"^[\w.]+(\(|->)", signature) or re.search(r"\b(if|for|while|switch) \(", signature):
            continue
        indent = lines[head][: len(lines[head]) - len(lines[head].lstrip())]
        for end in range(end_of_head + 1, len(lines)):
            if lines[end].startswith(indent + "}"):
                yield head + 1, end - head + 1, count_parameters(signature)
                break


def check_length(name, lines):
    """Complaints about the length of a file, as (line, what, is_warning)."""
    excused = bool(lines) and re.search(r"(?i)\blong\b", lines[0] + lines[min(1, len(lines) - 1)])
    if len(lines) > (EXCUSED_LINES if excused else FAIL_LINES):
        rule = f"{FAIL_LINES} lines at most, {EXCUSED_LINES} where the first line says why it is long"
        yield 1, f"{len(lines)} lines; {rule}", False
    elif len(lines) > WARN_LINES:
        yield 1, f"{len(lines)} lines", True


def check_source(name, lines):
    """Complaints about one C++ or CUDA file, as (line, what, is_warning)."""
    suffix = pathlib.PurePosixPath(name).suffix
    comment = lines[:1] and lines[0].startswith("// ") and SPDX not in lines[0]
    if suffix in HEADER and not comment:
        yield 1, "the first line of a header says in one sentence what the thing is", False
    if suffix in HEADER and "#pragma once" not in lines:
        yield 1, "a header needs #pragma once", False
    for number, line in enumerate(lines, 1):
        if not name.startswith("src/cuda/") and CONDITIONAL.match(line):
            yield number, "conditional compilation outside src/cuda", False
        declared = TYPE.match(line)
        if declared and BAD_TYPE.search(declared.group(1)):
            yield number, f"{declared.group(1)}: this type's name says nothing", False
        if len(line) > 120 and "http" not in line:
            yield number, "longer than 120 columns", False
    for number, length, parameters in functions(lines):
        if length > WARN_FUNCTION:
            yield number, f"a function of {length} lines", True
        if parameters > WARN_PARAMETERS:
            yield number, f"a function with {parameters} parameters", True


def check_names(name):
    """Complaints about the path of a code file, as (line, what, is_warning)."""
    for part in name.split("/"):
        if not FILE_NAME.match(part):
            yield 1, f"'{part}' is not lower_snake", False
    if BAD_TYPE.search(pathlib.PurePosixPath(name).stem.title().replace("_", "")):
        yield 1, "this file's name says nothing", False


def check_file(root, name):
    """All complaints about one file, as (line, what, is_warning)."""
    suffix = pathlib.PurePosixPath(name).suffix
    if suffix not in TEXT and pathlib.PurePosixPath(name).name not in ("Makefile", "Dockerfile"):
        return
    if name.startswith(("tests/goldens/", "models/", "bench/results/", "bench/shapes/")) and suffix == ".json":
        return
    lines = (root / name).read_text(errors="replace").splitlines()
    for number, line in enumerate(lines, 1):
        if MACHINE_PATH.search(line):
            yield number, "a path of one machine", False
        word = OPEN_WORDS.search(line)
        if word and suffix in SOURCE | SCRIPT:
            yield number, f"'{word.group(0)}': finish it, or refuse it with a clear error", False
        if name.endswith("package-lock.json") and '"resolved"' in line:
            yield number, "lock files hold no addresses", False
    if suffix in SOURCE | SCRIPT:
        if not any(line.lstrip("/# ").startswith(SPDX) for line in lines[:14]):  # a formatter draws it into the line before
            yield 1, f"no line '{SPDX}' at the top", False
        yield from check_length(name, lines)
        yield from check_names(name)
    if suffix in SOURCE:
        yield from check_source(name, lines)


def check(root):
    """Violations and warnings of a tree, each a list of lines `file:line: what`."""
    violations, warnings, size = [], [], 0
    for name in listed_files(root):
        size += (root / name).lstat().st_size
        for number, what, is_warning in check_file(root, name):
            (warnings if is_warning else violations).append(f"{name}:{number}: {what}")
    if size > LIMIT_BYTES:
        violations.append(f".:1: the tree has {size / 2**20:.1f} MiB; the limit is {LIMIT_BYTES / 2**20:.0f}")
    return violations, warnings


def planted():
    """(file, line, text, part of the message) of violations, and of warnings, that must be found."""
    header = f"// A thing.\n// {SPDX}\n#pragma once\n"
    source = f"// {SPDX}\n"
    violations = [
        ("src/base/a.h", 1, f"// {SPDX}\n#pragma once\n", "first line"),
        ("src/base/b.h", 1, f"// A thing.\n// {SPDX}\n", "#pragma once"),
        ("src/base/c.cpp", 1, "int x;\n", "no line 'SPDX"),
        ("src/base/swallowed.cpp", 1, f"// A table. {SPDX}\nint x;\n", "no line 'SPDX"),
        ("src/base/d.cpp", 2, source + "#if" "def X\n", "conditional compilation"),
        ("src/base/e.cpp", 2, source + "// TO" "DO: later\n", "finish it"),
        ("src/base/f.cpp", 2, source + 'fail("not implement' 'ed");\n', "finish it"),
        ("src/base/g.cpp", 1, source + "\n" * FAIL_LINES, "lines at most"),
        ("src/base/h.cpp", 1, f"// {SPDX} long: a table\n" + "\n" * EXCUSED_LINES, "lines at most"),
        ("src/base/PoolThing.cpp", 1, source, "not lower_snake"),
        ("src/base/string_utils.cpp", 1, source, "file's name says nothing"),
        ("src/base/i.h", 4, header + "class PoolManager {};\n", "type's name says nothing"),
        ("src/base/j.h", 4, header + "struct PoolImpl;\n", "type's name says nothing"),
        ("src/base/k.cpp", 2, source + 'open("/tm' 'p/x");\n', "path of one machine"),
        ("docs/a.md", 1, "see /wor" "k/main\n", "path of one machine"),
        ("src/base/l.cpp", 2, source + "// " + "x" * 120 + "\n", "120 columns"),
        ("tests/npm/package-lock.json", 1, '"resolved": "https://x"\n', "no addresses"),
    ]
    warnings = [
        ("src/base/m.cpp", 1, source + "\n" * WARN_LINES, "lines"),
        ("src/base/n.cpp", 2, source + "int f(int a) {\n" + "  g();\n" * WARN_FUNCTION + "}\n", "a function of"),
        ("src/base/o.cpp", 2, source + "int f(A<int, int> a, int b, int c, int d,\n      int e) {\n}\n", "with 5 parameters"),
    ]
    return violations, warnings


def self_test():
    """Plants each violation in a folder of its own, and expects exactly that one to be found."""
    violations, warnings = planted()
    good = f"// A thing.\n// {SPDX}\n#pragma once\nstruct Rebased {{ int f(A<int, int> a, int b, int c, int d) {{}} }};\n"
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder)

        def write(name, text):
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_text(text)

        write("src/base/good.h", good)
        write("src/cuda/good.cu", f"// {SPDX}\n#if" "def X\n#end" "if\n")
        assert check(root) == ([], []), check(root)
        for kind, plants in enumerate((violations, warnings)):
            for name, line, text, what in plants:
                write(name, text)
                found = check(root)[kind]
                assert len(found) == 1 and found[0].startswith(f"{name}:{line}: ") and what in found[0], (name, found)
                assert kind == 0 or not check(root)[0], (name, check(root))
                (root / name).unlink()
        with open(root / "big.bin", "wb") as big:
            big.truncate(LIMIT_BYTES + 1)
        assert any("MiB" in line for line in check(root)[0]), "a tree that is too big was not caught"
    print(f"check_style: {len(violations) + len(warnings) + 1} planted violations caught")
    return 0


def main():
    if sys.argv[1:] == ["--self-test"]:
        return self_test()
    arguments = [argument for argument in sys.argv[1:] if argument != "--warnings"]
    violations, warnings = check(pathlib.Path(arguments[0] if arguments else "."))
    if "--warnings" in sys.argv:
        print("\n".join(warnings))
    print("\n".join(violations + [f"check_style: {len(violations)} violations, {len(warnings)} warnings"]))
    return 1 if violations else 0


if __name__ == "__main__":
    sys.exit(main())
