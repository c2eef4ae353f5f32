# Runs the built program, and reads and writes the files it takes. For the tests beside this file.
# SPDX-License-Identifier: Apache-2.0
import json
import os
import pathlib
import pty
import shutil
import struct
import subprocess
import sys
import tempfile
import unittest

SOURCE = pathlib.Path(__file__).resolve().parents[2]
BINARY = pathlib.Path(os.environ.get("BRAID_BINARY_DIR", SOURCE / "build"))
GOLDENS = BINARY / "goldens"
POCKET = SOURCE / "models" / "pocket"
SHARED = SOURCE.parent / "shared"  # larger models and cases, where they are beside the project
FAMILIES = ["qwen3", "qwen3_moe", "qwen3_next", "qwen3_5", "qwen3_5_tied", "qwen3_5_moe"]
CODINGS = ["quant_moe.fp8_row", "quant_moe.int8_w8a8", "quant_moe.nvfp4_ct", "quant_moe.nvfp4_modelopt"]


def run(*arguments, text="", timeout=120):
    """Exit code, standard output and standard error of `braid ARGUMENTS`."""
    done = subprocess.run([str(BINARY / "braid"), *map(str, arguments)], input=text, capture_output=True, text=True,
                          timeout=timeout, encoding="utf-8")
    return done.returncode, done.stdout, done.stderr


def run_on_terminal(*arguments, timeout=60):
    """Exit code of `braid ARGUMENTS`, and what a terminal shows of it."""
    master, slave = pty.openpty()
    process = subprocess.Popen([str(BINARY / "braid"), *map(str, arguments)], stdout=slave, stderr=slave)
    os.close(slave)
    seen = b""
    try:
        while data := os.read(master, 4096):
            seen += data
    except OSError:  # how a pseudo terminal ends
        pass
    os.close(master)
    return process.wait(timeout), seen.decode()


class Case(unittest.TestCase):
    """A test with a temporary folder, and helpers that say what the program printed."""

    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="braid-test-"))
        self.addCleanup(shutil.rmtree, self.folder)

    def succeed(self, *arguments, **options):
        code, out, err = run(*arguments, **options)
        self.assertEqual(code, 0, f"braid {' '.join(map(str, arguments))}\n{out}\n{err}")
        return out

    def fail_in_one_line(self, fragments, *arguments, code=1, **options):
        """The program ends with `code` and one line on standard error that holds every fragment."""
        got, out, err = run(*arguments, **options)
        lines = [line for line in err.splitlines() if not line.startswith(("warning ", "info "))]
        what = f"braid {' '.join(map(str, arguments))}\ncode {got}\n{out}\n{err}"
        self.assertEqual(got, code, what)
        self.assertEqual(len(lines), 1, what)
        for fragment in fragments:
            self.assertIn(fragment, lines[0], what)

    def copy_model(self, source, name="model"):
        target = self.folder / name
        shutil.copytree(source, target)
        for path in target.rglob("*"):
            path.chmod(0o644 if path.is_file() else 0o755)
        return target


def read_safetensors(file):
    """{name: (dtype, shape, bytes)}, metadata"""
    data = pathlib.Path(file).read_bytes()
    length = struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8:8 + length])
    metadata = header.pop("__metadata__", {})
    base = 8 + length
    return {name: (t["dtype"], t["shape"], data[base + t["data_offsets"][0]:base + t["data_offsets"][1]])
            for name, t in header.items()}, metadata


def write_safetensors(file, tensors, metadata=None):
    header, body = {}, b""
    if metadata:
        header["__metadata__"] = metadata
    for name, (dtype, shape, data) in tensors.items():
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [len(body), len(body) + len(data)]}
        body += data
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    pathlib.Path(file).write_bytes(struct.pack("<Q", len(text)) + text + body)


def read_json(file):
    return json.loads(pathlib.Path(file).read_text(encoding="utf-8"))


def write_json(file, value):
    pathlib.Path(file).write_text(json.dumps(value), encoding="utf-8")


def main():
    """Runs the tests of the calling file, with the closing line that test runners read."""
    result = unittest.main(exit=False, verbosity=1, argv=[sys.argv[0]]).result
    # A test that fails in several of its parts is one that failed.
    failed = len({getattr(test, "test_case", test).id() for test, _ in result.failures + result.errors})
    for test, why in result.skipped:
        print(f"skipped {test.id()}: {why}")
    print(f"{result.testsRun - failed - len(result.skipped)} passed, {failed} failed, {len(result.skipped)} skipped")
    sys.exit(1 if failed else 0)
