# Load in short form: many streams, some of which leave or are malformed; nothing that is well-formed fails, and nothing is
# left behind. `load_test.py --soak SECONDS` does it with 256 streams for that long.
# SPDX-License-Identifier: Apache-2.0
import pathlib
import sys
import threading

import load
import server
from server import braid

SOAK = None


def resident_kib(process):
    for line in pathlib.Path(f"/proc/{process.pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1])
    return 0


class Loaded(server.Case):
    options = ["--max-parallel", 64, "--max-queue", 1024, "--cache-mb", 0]

    def setUp(self):
        super().setUp()
        load.Load(self.server.port, streams=64, seconds=1, tokens=16).run()  # everything that is used once has been

    def test_streams_that_come_and_go(self):
        before = resident_kib(self.server.process)
        done = load.Load(self.server.port, streams=256 if SOAK else 64, seconds=SOAK or 8, misbehave=True).run()
        self.assertEqual(done.faults, [], done.faults[:5])
        self.assertGreater(done.served, 0)
        self.assertGreater(done.left, 0)
        self.server.wait_idle()
        for what in ("slots", "pages"):
            self.assertEqual(self.server.metric(f"braid_state_{what}_free"), self.server.metric(f"braid_state_{what}"))
        # Pages are touched when they are first used; beyond them nothing grows with the number of requests.
        self.assertLess(resident_kib(self.server.process) - before, 300 << 10)

    def test_nobody_gets_the_words_of_another(self):
        faults = []

        def client(number):
            secret = f"{number * 7919 % 100000:05d}"
            for turn in range(4):
                body = server.chat(f"The code is {secret}. Spell banana.", ignore_eos=True, max_tokens=30 + turn)
                answer = self.server.post("/v1/chat/completions", body)[2]["choices"][0]["message"]["content"]
                other = [n for n in range(24) if n != number and f"{n * 7919 % 100000:05d}" in answer]
                if other:
                    faults.append((number, other, answer))

        threads = [threading.Thread(target=client, args=(number,)) for number in range(24)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(faults, [])


if __name__ == "__main__":
    if sys.argv[1:2] == ["--soak"]:
        SOAK = float(sys.argv[2])
    braid.main()
