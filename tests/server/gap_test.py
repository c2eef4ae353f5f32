# How long a prompt holds up the answers beside it: gaps between the tokens of 32 streams, before and while 6,000 tokens
# are read. `gap_test.py --quiet` compares the slowest of a hundred with the median, as only a quiet machine allows.
# SPDX-License-Identifier: Apache-2.0
import json
import selectors
import sys
import time

import server
from load import percentile
from server import MODEL, braid

QUIET = False
MOST = 3  # times a step without the prompt


class Streams:
    """Connections that are read as answers come; `gaps` are the seconds between the pieces of each."""

    def __init__(self, running):
        self.running, self.selector, self.gaps = running, selectors.DefaultSelector(), []

    def open(self, path, body):
        text = json.dumps({"model": MODEL, **body})
        sock = self.running.connect()
        sock.sendall(f"POST {path} HTTP/1.1\r\nHost: x\r\nContent-Length: {len(text)}\r\n\r\n{text}".encode())
        sock.setblocking(False)
        self.selector.register(sock, selectors.EVENT_READ, {"last": None})
        return sock

    def read(self, until):
        """The gaps until `until` holds or its socket, where it is one, is answered."""
        self.gaps = []
        for key in self.selector.get_map().values():
            key.data["last"] = None
        while not (callable(until) and until()):
            for key, _ in self.selector.select(10):
                data, now = key.fileobj.recv(1 << 16), time.monotonic()
                if key.fileobj is until:
                    assert data.startswith(b"HTTP/1.1 200"), data
                    return self.gaps
                if key.data["last"] is not None:
                    self.gaps.append(now - key.data["last"])
                key.data["last"] = now
        return self.gaps

    def seconds(self, count):
        end = time.monotonic() + count
        return self.read(lambda: time.monotonic() > end)

    def close(self):
        for key in list(self.selector.get_map().values()):
            key.fileobj.close()


class Gaps(server.Case):
    options = ["--max-parallel", 33, "--cache-mb", 0]

    def test_a_long_prompt_beside_streams(self):
        ids = self.server.post("/tokenize", {"prompt": "A river is a kind of stream that flows. " * 1000})[2]["tokens"][:6000]
        streams = Streams(self.server)
        self.addCleanup(streams.close)
        for number in range(32):
            # Every token shows, those that end an answer too.
            streams.open("/v1/completions", {"prompt": f"<|im_start|>user\nDefine word {number}.<|im_end|>\n", "stream": True,
                                             "ignore_eos": True, "skip_special_tokens": False, "max_tokens": 7000})
        streams.seconds(2)
        alone = streams.seconds(3)
        beside = streams.read(streams.open("/v1/completions", {"prompt": ids, "max_tokens": 1}))
        figures = {name: [round(1000 * percentile(gaps, share), 1) for share in (0.5, 0.95, 0.99)]
                   for name, gaps in (("alone", alone), ("beside", beside))}
        print(f"gaps in ms, p50 p95 p99: {figures}")
        self.assertGreater(len(beside), 32 * 10)
        # What else the machine does reaches both alike: like is compared with like, unless it is quiet.
        self.assertLess(figures["beside"][0], MOST * figures["alone"][0])
        self.assertLess(figures["beside"][2], MOST * figures["alone"][0 if QUIET else 2])


if __name__ == "__main__":
    QUIET = sys.argv[1:2] == ["--quiet"]
    braid.main()
