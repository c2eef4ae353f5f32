# What a server leaves behind and finds again: killed under load, with a full disk, with files that are not whole; and
# memory after requests that are over. `crash_test.py --soak N` kills it N times.
# SPDX-License-Identifier: Apache-2.0
import pathlib
import random
import signal
import subprocess
import sys
import threading
import time

import server
from server import braid, chat

PATH = "/v1/chat/completions"
SYSTEM = "You are a helpful dictionary. " + "Words have meanings, and meanings have words. " * 40
QUESTIONS = ["Spell banana.", "Who are you?", 'What does "river" mean?', "What is the opposite of hot?", "What is 27 + 15?"]
KILLS = 3


def conversation(question, number=0):
    """A chat whose beginning others share, and that is new to the cache for each number."""
    body = chat(question, max_tokens=40)
    body["messages"].insert(0, {"role": "system", "content": f"{SYSTEM} Rule {number}."})
    return body


def answer(running, body):
    status, _, got = running.post(PATH, body)
    assert status == 200, got
    return got["choices"][0]["message"]["content"], got["usage"]["prompt_tokens_details"]["cached_tokens"]


def resident_kib(process):
    return int(pathlib.Path(f"/proc/{process.pid}/statm").read_text().split()[1]) * 4


class Load:
    """Clients that ask without end, until the server is gone. `wrong` holds answers that are not as expected."""

    def __init__(self, running, expected, seed):
        self.running, self.expected, self.wrong, self.count = running, expected, [], 0
        self.threads = [threading.Thread(target=self.ask, args=(random.Random(seed * 100 + i),)) for i in range(6)]
        for thread in self.threads:
            thread.start()

    def ask(self, draw):
        try:
            while True:
                question = draw.choice(QUESTIONS)
                text, _ = answer(self.running, conversation(question, draw.randrange(4)))
                self.count += 1
                if text != self.expected[question]:
                    self.wrong.append((question, text))
        except (OSError, server.http.client.HTTPException):
            pass  # the server is gone

    def join(self):
        for thread in self.threads:
            thread.join()


class Case(braid.Case):
    """What a server without any cache answers is expected of those that keep theirs in the folder `kept`."""

    def setUp(self):
        super().setUp()
        self.kept = self.folder / "cache"
        with server.running("--cache-mb", 0) as running:
            self.expected = {question: answer(running, conversation(question))[0] for question in QUESTIONS}

    def check_answers(self, running):
        """Right answers, cold and warm; how many tokens the first of them took from the cache."""
        first = 0
        for number, question in enumerate(QUESTIONS):
            text, cached = answer(running, conversation(question))
            self.assertEqual(text, self.expected[question])
            first = first if number else cached
        return first


class Killed(Case):
    def test_killed_under_load(self):
        draw = random.Random(5)
        restored = reused = round_ = 0
        # Every round asks first what the one before it asked first. What a full cache dropped has no file either, so one
        # round may find nothing; not all of many.
        while round_ < KILLS or (reused == 0 and round_ < 4 * KILLS):
            running = server.Server("--cache-dir", self.kept, "--cache-mb", 64)
            found = running.wait_for(r"kept state folder=.* restored=(\d+) files=(\d+)")
            restored += int(found[1])
            self.assertFalse([line for line in running.lines if "discarded" in line], "a killed server left a broken file")
            self.assertEqual(list(self.kept.glob("*.part")), [], "what was half written is still there")
            reused += self.check_answers(running)
            load = Load(running, self.expected, round_)
            while not list(self.kept.glob("*.state")):
                time.sleep(0.01)
            time.sleep(draw.uniform(0, 1))
            self.assertEqual(running.stop(signal.SIGKILL), -signal.SIGKILL)
            load.join()
            self.assertEqual(load.wrong, [])
            round_ += 1
        self.assertGreater(restored, 0)
        self.assertGreater(reused, 0)

    def test_files_that_are_not_whole(self):
        with server.running("--cache-dir", self.kept) as running:
            self.check_answers(running)
        files = sorted(self.kept.glob("*.state"), key=lambda file: file.stat().st_size)
        self.assertGreaterEqual(len(files), 4)
        torn, flipped, empty = files[-3:]
        torn.write_bytes(torn.read_bytes()[:-1000])
        data = bytearray(flipped.read_bytes())
        data[len(data) // 2] ^= 1
        flipped.write_bytes(data)
        empty.write_bytes(b"")
        (self.kept / "0.state.part").write_bytes(b"half")
        with server.running("--cache-dir", self.kept) as running:
            running.wait_for("kept state discarded files=3 ")
            self.assertFalse((self.kept / "0.state.part").exists())
            self.assertFalse(torn.exists() and flipped.exists() and empty.exists())
            self.check_answers(running)

    def test_another_mode_finds_nothing(self):
        with server.running("--cache-dir", self.kept) as running:
            self.check_answers(running)
        with server.running("--cache-dir", self.kept, "--deterministic") as running:
            running.wait_for("kept state discarded ")
            self.assertEqual(self.check_answers(running), 0)


class FullDisk(Case):
    def serve_beyond(self, before):
        """Requests go on when the disk refuses, which is said once."""
        with server.running("--cache-dir", self.kept, before=before) as running:
            for number in range(3):
                for question in QUESTIONS:
                    self.assertEqual(answer(running, conversation(question, number))[0], self.expected[question])
            running.wait_for("kept state is no longer written: ")
        said = [line for line in running.lines if line.startswith(("warning ", "error "))]
        self.assertEqual(len(said), 1, said)

    def test_a_file_system_that_is_full(self):
        self.kept.mkdir()
        mount = ["unshare", "-m", "sh", "-c", f"mount -t tmpfs -o size=1m tmpfs '{self.kept}' && exec \"$0\" \"$@\""]
        try:
            allowed = subprocess.run([*mount, "true"], capture_output=True).returncode == 0
        except OSError:
            allowed = False
        if not allowed:
            self.skipTest("file systems cannot be mounted here")
        self.serve_beyond(mount)

    def test_files_that_may_not_grow(self):
        self.serve_beyond(["sh", "-c", "ulimit -f 64 && exec \"$0\" \"$@\""])
        self.assertEqual(list(self.kept.glob("*.part")), [])

    def test_a_folder_that_cannot_be(self):
        self.kept.write_text("a file", encoding="utf-8")
        self.fail_in_one_line([str(self.kept)], "serve", braid.POCKET, "--port", 0, "--cache-dir", self.kept)


class Memory(braid.Case):
    def test_requests_that_are_over_leave_nothing(self):
        # Without a cache nothing is kept, one of 8 MiB is full after the first few, and that of the default keeps every
        # conversation, which takes no more when it comes again.
        # Address sanitizer keeps memory that was given back for a while, unless it is told not to.
        kept_by_nobody = ["env", "ASAN_OPTIONS=quarantine_size_mb=0:thread_local_quarantine_size_kb=0"]
        for options, different in ((["--cache-mb", 0], 28), (["--cache-mb", 8], 28), ([], len(QUESTIONS))):
            with server.running(*options, before=kept_by_nobody) as running:
                sizes = []
                for number in range(28):
                    answer(running, conversation(QUESTIONS[number % len(QUESTIONS)], number % different))
                    sizes.append(resident_kib(running.process))
            # Each conversation leaves its last token's state the second time. The allocator keeps an arena for each of
            # the server's four threads, whose first page may come late.
            self.assertLess(sizes[27] - sizes[2 * len(QUESTIONS)], 4 * 256, sizes)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--soak"]:
        KILLS = int(sys.argv[2])
    braid.main()
