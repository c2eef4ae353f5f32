# Transcripts: requests as data, with the whole answers that they get; what changes from run to run is a hole.
# `transcripts_test.py --write FILE ...` fills in what the server answers now, for somebody to read before it is kept.
#
# A file of tests/transcripts holds {"what", "options" (of the server), "steps"}; a step {"method", "path", "headers",
# "body", "status"} and "answer" (JSON) or "events" (lists of event name and data; data that is JSON is written as such).
# Holes are "~string", "~number" and "~/regular expression/".
# SPDX-License-Identifier: Apache-2.0
import json
import re
import sys
import unittest

import server
from server import braid

FOLDER = braid.SOURCE / "tests" / "transcripts"
# Written as holes wherever they occur.
ID = r"~/[a-z]+[-_]\w+/"
HOLES = {"id": ID, "item_id": ID, "call_id": ID, "created": "~number", "created_at": "~number", "completed_at": "~number",
         "cached_tokens": "~number", "cache_read_input_tokens": "~number", "input_tokens": "~number", "logprob": "~number"}


def matches(expected, found):
    if isinstance(expected, str) and expected.startswith("~"):
        if expected == "~string":
            return isinstance(found, str)
        if expected == "~number":
            return isinstance(found, (int, float)) and not isinstance(found, bool)
        return isinstance(found, str) and re.fullmatch(expected[2:-1], found) is not None
    if isinstance(expected, dict):
        return (isinstance(found, dict) and list(expected) == list(found)
                and all(matches(value, found[name]) for name, value in expected.items()))
    if isinstance(expected, list):
        return isinstance(found, list) and len(expected) == len(found) and all(map(matches, expected, found))
    return expected == found


def with_holes(value):
    if isinstance(value, dict):
        return {name: HOLES[name] if name in HOLES and inner not in (None, "") else with_holes(inner)
                for name, inner in value.items()}
    return [with_holes(inner) for inner in value] if isinstance(value, list) else value


def parsed(data):
    try:
        return json.loads(data)
    except ValueError:
        return data


def play(running, step):
    """Status, and the answer or the events."""
    body = step.get("body")
    if isinstance(body, dict) and body.get("stream") and step.get("status", 200) == 200:
        return 200, [[name, parsed(data)] for name, data in running.events(step["path"], body, step.get("headers"))]
    status, _, answer = running.ask(step.get("method", "POST"), step["path"], body, step.get("headers"))
    return status, answer if isinstance(answer, (dict, list)) else answer.decode()


def dump(transcript):
    """Readable JSON: one line for each event, and for each small value."""
    lines = json.dumps(transcript, indent=1, ensure_ascii=False)

    def one_line(found):
        inner = " ".join(line.strip() for line in found[0].splitlines())
        return re.sub(r"([\[{]) | ([\]}])", lambda m: m[1] or m[2], inner)
    return re.sub(r"^ {4,5}[\[{]$(.|\n)*?^ {4,5}[\]}]", lambda m: m[0][:len(m[0]) - len(m[0].lstrip())] + one_line(m),
                  lines, flags=re.M) + "\n"


class Transcripts(unittest.TestCase):
    maxDiff = None

    def test_all(self):
        by_options = {}
        for file in sorted(FOLDER.glob("*.json")):
            transcript = braid.read_json(file)
            by_options.setdefault(tuple(transcript.get("options", [])), []).append((file.name, transcript))
        self.assertTrue(by_options)
        for options, transcripts in by_options.items():
            with server.running(*options) as running:
                for name, transcript in transcripts:
                    for number, step in enumerate(transcript["steps"]):
                        with self.subTest(transcript=name, step=number):
                            self.check(running, step)

    def check(self, running, step):
        status, found = play(running, step)
        self.assertEqual(status, step.get("status", 200), found)
        expected = step["events"] if "events" in step else step["answer"]
        if not matches(expected, found):
            self.assertEqual(expected, with_holes(found))
            self.fail(f"{found}")


def write(file):
    transcript = braid.read_json(file)
    with server.running(*transcript.get("options", [])) as running:
        for step in transcript["steps"]:
            status, found = play(running, step)
            if status != 200:
                step["status"] = status
            streamed = isinstance(found, list)
            step.pop("answer" if streamed else "events", None)
            step["events" if streamed else "answer"] = with_holes(found)
    with open(file, "w", encoding="utf-8") as out:
        out.write(dump(transcript))


if __name__ == "__main__":
    if sys.argv[1:2] == ["--write"]:
        for file in sys.argv[2:]:
            write(file)
        sys.exit()
    braid.main()
