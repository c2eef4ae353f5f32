#!/usr/bin/python3
"""Runs the tests of a build folder and closes with one line: how many passed, failed and were skipped, and which.

usage: run_tests.py BUILD [--repeat N]   (N rounds in random order, stopping at the first that fails)
"""
# SPDX-License-Identifier: Apache-2.0
import argparse
import collections
import os
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as xml


def run(build, shuffled):
    """One round: the exit code of ctest, and for each outcome the names of the tests that had it."""
    with tempfile.TemporaryDirectory() as folder:
        report = os.path.join(folder, "report.xml")
        command = ["ctest", "--test-dir", build, "--output-on-failure", "-j2", "--no-tests=error"]
        command += ["--output-junit", report] + (["--schedule-random"] if shuffled else [])
        code = subprocess.run(command).returncode
        outcomes = collections.defaultdict(list)
        if os.path.exists(report):
            for case in xml.parse(report).getroot().iter("testcase"):
                outcomes[case.get("status")].append(case.get("name"))
        return code, outcomes


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("build")
    parser.add_argument("--repeat", type=int, default=1)
    options = parser.parse_args()
    code, passed, failed, skipped, start = 0, 0, [], set(), time.monotonic()
    for _ in range(options.repeat):
        code, outcomes = run(options.build, options.repeat > 1)
        passed += len(outcomes.pop("run", []))
        skipped.update(outcomes.pop("notrun", []))
        skipped.update(outcomes.pop("disabled", []))
        failed = [name for names in outcomes.values() for name in names]
        if code:
            break
    for name in sorted(skipped):
        print(f"skipped: {name}")
    for name in failed:
        print(f"FAILED: {name}")
    print(f"tests: {passed} passed, {len(failed)} failed, {len(skipped)} skipped, {time.monotonic() - start:.0f} s")
    return 1 if code or failed else 0


if __name__ == "__main__":
    sys.exit(main())
