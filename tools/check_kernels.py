#!/usr/bin/python3
"""Checks that kernel objects of one instruction set share no function with the rest of the program.

usage: check_kernels.py SET OBJECT... | check_kernels.py --self-test

An inline function or a template that the compiler leaves out of line becomes a weak symbol, and the linker keeps one copy of
all: one with AVX-512 code could then be called on a machine without it. So the only weak symbols allowed are those inside
namespace braid::cpu::SET.
"""
# SPDX-License-Identifier: Apache-2.0
import re
import subprocess
import sys

WEAK = set("VvWwu")


def shared(listing, name):
    """Weak or unique symbols that a listing of `nm --defined-only` shows outside the namespace of set `name`."""
    own = re.compile(rf"^_Z(GV|T[VTSI]|GR)?Z*N?[VK]*N?[VK]*5braid3cpu{len(name)}{name}")
    found = []
    for line in listing.splitlines():
        parts = line.split()
        if len(parts) == 3 and parts[1] in WEAK and not own.match(parts[2]):
            found.append(parts[2])
    return found


def self_test():
    listing = ("0000 W _ZNSt6vectorIfE\n0000 T _ZN5braid3cpu6avx5126linearEv\n0000 W _ZN5braid3cpu6avx5124dotIfEEvv\n"
               "0000 u _ZN5braid5tableE\n0000 W _ZNK5braid6Tensor4rowIfEEPT_l\n0000 V _ZTVN5braid3cpu6avx5121XE\n"
               "0000 W _ZN5braid3cpu4avx24dotEv\n0000 t _ZNSt3abcE\n0000 V _ZZN5braid3cpu6avx5121fEvE1t\n")
    expected = ["_ZNSt6vectorIfE", "_ZN5braid5tableE", "_ZNK5braid6Tensor4rowIfEEPT_l", "_ZN5braid3cpu4avx24dotEv"]
    found = shared(listing, "avx512")
    assert found == expected, found


def main(arguments):
    if arguments == ["--self-test"]:
        self_test()
        return 0
    name, objects = arguments[0], arguments[1:]
    assert objects, "no objects given"
    failures = 0
    for path in objects:
        listing = subprocess.run(["nm", "--defined-only", path], check=True, capture_output=True, text=True).stdout
        assert listing.strip(), f"{path} defines nothing"
        for symbol in shared(listing, name):
            plain = subprocess.run(["c++filt", symbol], check=True, capture_output=True, text=True).stdout.strip()
            print(f"{path}: {plain} is shared with the rest of the program")
            failures += 1
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
