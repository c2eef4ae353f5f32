# Many streams at a time from one thread: sends chats, counts tokens and the gaps between them, and misbehaves on request.
#
# usage: load.py PORT [--streams N] [--seconds N] [--tokens N] [--misbehave]   prints the figures as JSON
# SPDX-License-Identifier: Apache-2.0
import argparse
import json
import random
import selectors
import socket
import time

WORDS = ["river", "guitar", "lighthouse", "spoon", "happy", "banana", "cold", "tower", "music", "stream"]
MALFORMED = [b"{", b'{"model": 3}', b'{"model": "pocket", "messages": 4}', b"\xff\xfe", b'{"messages": [{}]}', b"[[[[",
             b'{"model": "pocket", "messages": [{"role": "user", "content": "x"}], "temperature": "hot"}']


def percentile(values, share):
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else 0.0


class Stream:
    """One connection with one request; `fate` is served, malformed or leaves."""

    def __init__(self, load, number):
        self.load, self.number = load, number
        kind = load.random.random() if load.misbehave else 1.0
        self.fate = "malformed" if kind < 0.05 else "leaves" if kind < 0.25 else "served"
        self.leave_after = load.random.randint(0, 40)
        self.head, self.tail, self.tokens = b"", b"", 0
        self.start = self.last = time.monotonic()
        self.socket = socket.create_connection(("127.0.0.1", load.port), timeout=30)
        self.socket.sendall(self.request())
        self.socket.setblocking(False)

    def request(self):
        draw = self.load.random
        if self.fate == "malformed":
            body = draw.choice(MALFORMED)
        else:
            words = " ".join(draw.choices(WORDS, k=draw.choice(self.load.lengths)))
            body = json.dumps({"model": "pocket", "messages": [{"role": "user", "content": f"Define {words}."}],
                               "stream": True, "ignore_eos": True, "max_tokens": self.load.tokens,
                               "chat_template_kwargs": {"enable_thinking": False}}).encode()
        return (f"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: {len(body)}\r\n\r\n"
                .encode() + body)

    def take(self):
        """Reads what is there; False when the stream is over."""
        try:
            data = self.socket.recv(1 << 16)
        except BlockingIOError:
            return True
        except OSError:
            return self.over(b"")
        if not data:
            return self.over(data)
        if len(self.head) < 12:
            self.head += data[:12]
        whole = self.tail + data
        # Chunks of content end in `null}]}`; the first has the role alone.
        count = whole.count(b'"delta":{"content"')
        self.tail = whole[-17:]
        if count:
            now = time.monotonic()
            if self.tokens == 0:
                self.load.first.append(now - self.start)
            else:
                self.load.gaps.append((now - self.last) / count)
            self.last = now
            self.tokens += count
            self.load.counted += count
        if self.fate == "leaves" and self.tokens >= self.leave_after:
            self.load.left += 1
            return False
        return True

    def over(self, data):
        status = self.head[9:12]
        whole = self.tail.endswith(b"0\r\n\r\n")
        if self.fate == "served":
            self.load.served += 1
            if status != b"200" or not whole:
                self.load.faults.append(f"{status} {self.tail}")
        elif self.fate == "malformed":
            self.load.refused += 1
            if status not in (b"400", b"404"):
                self.load.faults.append(f"malformed: {status}")
        return False


class Load:
    def __init__(self, port, streams=64, seconds=10.0, tokens=64, misbehave=False, seed=1, lengths=(1, 2, 8, 40)):
        self.port, self.streams, self.seconds, self.tokens, self.misbehave = port, streams, seconds, tokens, misbehave
        self.lengths = lengths
        self.random = random.Random(seed)
        self.first, self.gaps, self.faults = [], [], []
        self.served = self.refused = self.left = self.counted = 0

    def run(self):
        selector = selectors.DefaultSelector()
        number, begun = 0, time.monotonic()

        def open_one():
            nonlocal number
            number += 1
            stream = Stream(self, number)
            selector.register(stream.socket, selectors.EVENT_READ, stream)

        for _ in range(self.streams):
            open_one()
        while selector.get_map():
            for key, _ in selector.select(timeout=60) or self.stuck():
                if not key.data.take():
                    selector.unregister(key.fileobj)
                    key.fileobj.close()
                    if time.monotonic() - begun < self.seconds:
                        open_one()
        self.took = time.monotonic() - begun
        return self

    def stuck(self):
        raise AssertionError("nothing came for a minute")

    def figures(self):
        return {"streams": self.streams, "seconds": round(self.took, 2), "served": self.served, "refused": self.refused,
                "left": self.left, "faults": len(self.faults), "tokens_per_s": round(self.counted / self.took, 1),
                "first_token_ms": {f"p{p}": round(1000 * percentile(self.first, p / 100), 1) for p in (50, 95, 99)},
                "gap_ms": {f"p{p}": round(1000 * percentile(self.gaps, p / 100), 1) for p in (50, 95, 99)}}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("port", type=int)
    parser.add_argument("--streams", type=int, default=64)
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--tokens", type=int, default=64)
    parser.add_argument("--misbehave", action="store_true")
    options = parser.parse_args()
    load = Load(options.port, options.streams, options.seconds, options.tokens, options.misbehave).run()
    print(json.dumps(load.figures(), indent=1))


if __name__ == "__main__":
    main()
