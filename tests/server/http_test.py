# HTTP itself: keep-alive, pipelining, what is malformed, limits, slow clients, and clients that go away.
# SPDX-License-Identifier: Apache-2.0
import json
import os
import signal
import socket
import threading
import time
import unittest

import server
from server import braid, chat

HEAD = "POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"


def request(body, extra=""):
    text = json.dumps(body)
    return f"{HEAD}Content-Length: {len(text)}\r\n{extra}\r\n{text}".encode()


def read_answer(reader):
    """Status, headers and body of one answer with a length."""
    status = int(reader.readline().split()[1])
    headers = {}
    for line in iter(reader.readline, b"\r\n"):
        name, _, value = line.decode().partition(":")
        headers[name.lower()] = value.strip()
    return status, headers, reader.read(int(headers["content-length"]))


class Http(server.Case):
    options = ["--max-body-mb", 1, "--request-timeout", 1, "--cache-mb", 0]

    def raw(self, data, shut=False):
        """All that the server sends back to these bytes until it closes."""
        with self.server.connect(timeout=20) as sock:
            sock.sendall(data)
            if shut:
                sock.shutdown(socket.SHUT_WR)
            got = b""
            while piece := sock.recv(65536):
                got += piece
            return got

    def test_connections_are_kept(self):
        connection = self.server.connection()
        for _ in range(3):
            status, headers, _ = self.server.ask("GET", "/health", connection=connection)
            self.assertEqual((status, headers["connection"]), (200, "keep-alive"))
        status, headers, _ = self.server.ask("GET", "/health", connection=connection, headers={"Connection": "close"})
        self.assertEqual(headers["connection"], "close")
        connection.close()

    def test_pipelined_requests_are_answered_in_order(self):
        texts = ["Spell banana.", "Who are you?", 'What does "river" mean?']
        with self.server.connect() as sock:
            sock.sendall(b"".join(request(chat(text)) for text in texts))
            reader = sock.makefile("rb")
            answers = [json.loads(read_answer(reader)[2])["choices"][0]["message"]["content"] for _ in texts]
        self.assertEqual([answer[:5] for answer in answers], ["B-A-N", "I am ", "river"])

    def test_a_head_that_comes_during_an_answer_and_its_body_after(self):
        whole = request(chat("Spell banana."))
        head = whole.index(b"\r\n\r\n") + 4
        with self.server.connect() as sock:
            reader = sock.makefile("rb")
            sock.sendall(request(chat("Who are you?", ignore_eos=True, max_tokens=200)))
            time.sleep(0.02)
            sock.sendall(whole[:head])
            self.assertEqual(read_answer(reader)[0], 200)
            sock.sendall(whole[head:])
            status, _, body = read_answer(reader)
        self.assertEqual(status, 200, body)
        self.assertTrue(json.loads(body)["choices"][0]["message"]["content"].startswith("B-A-N"))

    def test_old_clients(self):
        body = json.dumps(chat("Spell banana.", stream=True))
        got = self.raw(f"{HEAD.replace('1.1', '1.0')}Content-Length: {len(body)}\r\n\r\n{body}".encode())
        self.assertIn(b"Connection: close", got)
        self.assertNotIn(b"chunked", got)
        self.assertTrue(got.endswith(b"data: [DONE]\n\n"), got[-100:])

    def test_bodies_in_chunks(self):
        text = json.dumps(chat("Spell banana."))
        pieces = [text[i:i + 7] for i in range(0, len(text), 7)]
        body = "".join(f"{len(piece):x}\r\n{piece}\r\n" for piece in pieces) + "0\r\n\r\n"
        with self.server.connect() as sock:
            sock.sendall(f"{HEAD}Transfer-Encoding: chunked\r\n\r\n{body}".encode())
            self.assertEqual(read_answer(sock.makefile("rb"))[0], 200)

    def test_a_client_that_waits_for_leave(self):
        text = json.dumps(chat("Spell banana."))
        with self.server.connect() as sock:
            reader = sock.makefile("rb")
            sock.sendall(f"{HEAD}Content-Length: {len(text)}\r\nExpect: 100-continue\r\n\r\n".encode())
            self.assertEqual((reader.readline(), reader.readline()), (b"HTTP/1.1 100 Continue\r\n", b"\r\n"))
            sock.sendall(text.encode())
            self.assertEqual(read_answer(reader)[0], 200)

    def test_what_is_no_http(self):
        for data, status in [(b"hello\r\n\r\n", 400), (b"GET / HTTP/1.1\r\nbad header\r\n\r\n", 400),
                             (f"{HEAD}Content-Length: x\r\n\r\n".encode(), 400),
                             (f"{HEAD}Content-Length: 99999999999999999999\r\n\r\n".encode(), 400),
                             (f"{HEAD}Transfer-Encoding: chunked\r\n\r\nzz\r\n".encode(), 400),
                             (f"{HEAD}Content-Length: 3\r\nContent-Length: 4\r\n\r\nabcd".encode(), 400),
                             (f"{HEAD}X-Long: {'x' * 70000}\r\n\r\n".encode(), 431),
                             (f"{HEAD}Content-Length: {2 << 20}\r\n\r\n".encode() + b"x" * (2 << 20), 413)]:
            got = self.raw(data)
            self.assertEqual(got.split()[1:2], [str(status).encode()], (data[:80], got[:200]))
            body = json.loads(got.partition(b"\r\n\r\n")[2])
            self.assertEqual(list(body["error"]), ["message", "type", "param", "code"])

    def test_slow_requests_end(self):
        start = time.monotonic()
        with self.server.connect(timeout=10) as sock:
            got = b""
            sock.sendall(HEAD.encode())
            try:
                for _ in range(50):  # a byte of a header that never ends every 0.1 s
                    sock.sendall(b"x")
                    time.sleep(0.1)
            except OSError:
                pass
            try:
                got = sock.recv(1000)
            except OSError:
                pass
        self.assertTrue(got == b"" or b" 408 " in got, got)
        self.assertLess(time.monotonic() - start, 9)

    def test_others_are_served_while_some_are_slow(self):
        slow = [self.server.connect() for _ in range(50)]
        for sock in slow:
            sock.sendall(b"POST /v1/chat")
        self.assertEqual(self.server.post("/v1/chat/completions", chat("Spell banana."))[0], 200)
        for sock in slow:
            sock.close()

    def test_a_client_that_does_not_read_stops_nobody(self):
        body = {"model": server.MODEL, "messages": [{"role": "user", "content": "Who are you?"}], "stream": True,
                "ignore_eos": True, "max_tokens": 4000, "n": 4}
        with self.server.connect() as sock:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            sock.sendall(request(body))
            self.assertEqual(sock.recv(12), b"HTTP/1.1 200")
            self.assertEqual(self.server.post("/v1/chat/completions", chat("Spell banana."))[0], 200)
        self.server.wait_idle()

    def test_who_goes_away_is_cancelled(self):
        long = chat("Who are you?", ignore_eos=True, max_tokens=8000)
        for stream in (True, False):
            with self.server.connect() as sock:
                sock.sendall(request({**long, "stream": stream}))
                if stream:
                    self.assertEqual(sock.recv(12), b"HTTP/1.1 200")
                deadline = time.monotonic() + 20
                while self.server.metric("braid_sequences_running") == 0:
                    self.assertLess(time.monotonic(), deadline)
            start = time.monotonic()
            self.server.wait_idle()
            self.assertLess(time.monotonic() - start, 5)  # the whole answer would take longer
            self.server.wait_for(r"status=499 .*decode=\d+", first=len(self.server.lines) - 200 if len(self.server.lines) > 200 else 0)
        self.assertEqual(self.server.metric("braid_state_slots_free"), self.server.metric("braid_state_slots"))


class Leaving(braid.Case):
    def test_running_answers_end_and_new_ones_are_refused(self):
        with server.running() as running:
            kept = running.connection()
            self.assertEqual(running.ask("GET", "/health", connection=kept)[0], 200)
            events = running.events("/v1/chat/completions",
                                    chat("Who are you?", stream=True, ignore_eos=True, max_tokens=600))
            next(events)
            running.process.send_signal(signal.SIGTERM)
            running.wait_for("leaving")
            status, headers, body = running.post("/v1/chat/completions", chat("Spell banana."))
            self.assertEqual((status, body["error"]["code"]), (503, "shutting_down"))
            self.assertIn("retry-after", headers)
            self.assertEqual(running.ask("GET", "/health")[2]["ready"], False)
            got = server.chunks(events)
            self.assertEqual(got[-1]["choices"][0]["finish_reason"], "length")
            self.assertEqual(running.process.wait(20), 0)

    def test_answers_that_take_too_long_are_cut(self):
        with server.running("--drain-timeout", 1) as running:
            events = running.events("/v1/chat/completions",
                                    chat("Who are you?", stream=True, ignore_eos=True, max_tokens=8000, n=8))
            next(events)
            running.process.send_signal(signal.SIGTERM)
            self.assertIn("shutting down", "".join(data for _, data in events))
            self.assertEqual(running.process.wait(20), 0)

    def test_a_second_signal_ends_at_once(self):
        with server.running() as running:
            events = running.events("/v1/chat/completions", chat("Who are you?", stream=True, ignore_eos=True, n=8))
            next(events)
            running.process.send_signal(signal.SIGINT)
            running.wait_for("leaving")
            running.process.send_signal(signal.SIGINT)
            self.assertEqual(running.process.wait(10), 0)

    def test_a_port_that_is_taken(self):
        with server.running() as running:
            # Known before the model is looked at.
            self.fail_in_one_line(["cannot listen on 127.0.0.1", str(running.port)], "serve", self.folder / "none", "--port", running.port)

    def test_a_port_that_another_program_listens_on(self):
        with socket.create_server(("127.0.0.1", 0)) as other:
            port = other.getsockname()[1]
            self.fail_in_one_line(["cannot listen on 127.0.0.1", str(port)], "serve", self.folder / "none", "--port", port)


if __name__ == "__main__":
    braid.main()
