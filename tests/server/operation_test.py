# Running the server: keys, TLS, web pages of others, a full queue, the log, metrics, and what the command line refuses.
# SPDX-License-Identifier: Apache-2.0
import concurrent.futures
import http.client
import re
import shutil
import signal
import socket
import subprocess
import threading
import time
import unittest

import server
from server import MODEL, braid, chat

PATH = "/v1/chat/completions"


class Keys(braid.Case):
    def test_keys_and_their_names(self):
        keys = self.folder / "keys"
        keys.write_text("# the team's keys\nalice key-of-alice\n\nbob   key-of-bob\n", encoding="utf-8")
        with server.running("--api-key-file", keys, "--api-key", "third-key") as running:
            self.assertEqual(running.ask("GET", "/health")[0], 200)
            for headers in ({}, {"Authorization": "Bearer key-of-alic"}, {"Authorization": "key-of-alice"},
                            {"x-api-key": "key-of-alicee"}, {"x-api-key": ""}):
                for method, path in (("GET", "/v1/models"), ("GET", "/metrics"), ("POST", PATH)):
                    status, got, body = running.ask(method, path, "{}" if method == "POST" else None, headers=headers)
                    self.assertEqual((status, body["error"]["code"]), (401, "invalid_api_key"), (headers, path))
            alice, bob = {"Authorization": "bearer key-of-alice"}, {"x-api-key": "key-of-bob"}
            self.assertEqual(running.post(PATH, chat("Spell banana."), headers=alice)[0], 200)
            self.assertEqual(running.ask("GET", "/v1/models", headers=bob)[0], 200)
            self.assertEqual(running.ask("GET", "/v1/models", headers={"x-api-key": "third-key"})[0], 200)
            text = running.wait_metrics(f'braid_requests_total{{path="{PATH}",status="200",key="alice"}} 1\n', bob)
            self.assertIn('braid_requests_total{path="/v1/models",status="200",key="bob"} 1\n', text)
            self.assertIn('status="401",key=""} 5\n', text)
            self.assertRegex(text, r'braid_tokens_total\{kind="completion",key="alice"\} [1-9]')
            self.assertNotIn("key-of", "\n".join(running.lines))

    def test_clients_that_leave_with_the_whole_answer_have_it(self):
        with server.running("--max-parallel", 2) as running:
            def leave(_):
                for _ in range(100):
                    with running.connect() as sock:
                        sock.sendall(b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n")
                        self.assertTrue(sock.recv(4096).startswith(b"HTTP/1.1 200"))
            with concurrent.futures.ThreadPoolExecutor(8) as pool:
                list(pool.map(leave, range(8)))
            text = running.wait_metrics('braid_requests_total{path="/health",status="200",key=""} 800\n')
            self.assertNotIn('path="/health",status="499"', text)

    def test_bad_key_files(self):
        keys = self.folder / "keys"
        for text in ("", "# nothing\n", "a b c\n"):
            keys.write_text(text, encoding="utf-8")
            self.fail_in_one_line(["keys"], "serve", braid.POCKET, "--api-key-file", keys, code=2)
        self.fail_in_one_line(["none"], "serve", braid.POCKET, "--api-key-file", self.folder / "none")


class Operation(server.Case):
    options = ["--served-model-name", MODEL, "--served-model-name", "team/words", "--cors-origin", "https://page.example",
               "--max-parallel", 2, "--max-queue", 2, "--max-tokens", 6, "--think", "off", "--temperature", 0]

    def test_names(self):
        self.assertEqual([m["id"] for m in self.server.ask("GET", "/v1/models")[2]["data"]], [MODEL, "team/words"])
        got = self.server.post(PATH, {"model": "team/words", "messages": [{"role": "user", "content": "Who are you?"}]})[2]
        self.assertEqual((got["model"], got["usage"]["completion_tokens"]), ("team/words", 6))
        self.assertTrue(got["choices"][0]["message"]["content"].startswith("I am Pocket"))
        self.assertEqual(self.server.ask("GET", "/v1/models/team/words")[2]["id"], "team/words")

    def test_request_ids(self):
        status, headers, _ = self.server.ask("GET", "/health", headers={"X-Request-Id": "my-id-7"})
        self.assertEqual(headers["x-request-id"], "my-id-7")
        self.server.wait_for("request id=my-id-7 .*path=/health status=200")
        ours = {self.server.ask("GET", "/health")[1]["x-request-id"] for _ in range(5)}
        self.assertEqual(len(ours), 5)
        strange = self.server.ask("GET", "/health", headers={"X-Request-Id": 'a"b c'})[1]["x-request-id"]
        self.assertTrue(strange.startswith("req_"))

    def test_the_line_of_an_answer(self):
        self.server.post(PATH, chat("Who are you?"), headers={"X-Request-Id": "line-1"})
        line = self.server.wait_for("request id=line-1 .*").group(0)
        self.assertRegex(line, r"method=POST path=/v1/chat/completions status=200 key=- seconds=\d+\.\d+ cached=\d+ reuse_limit=\w+ "
                               r"prefill=\d+ decode=6 first_token_ms=\d+\.\d+ tokens_per_s=\d+")

    def test_web_pages_of_others(self):
        status, headers, _ = self.server.ask("OPTIONS", PATH, headers={"Origin": "https://page.example"})
        self.assertEqual((status, headers["access-control-allow-origin"]), (204, "https://page.example"))
        self.assertIn("POST", headers["access-control-allow-methods"])
        self.assertIn("access-control-allow-origin", self.server.ask("GET", "/health")[1])
        with server.running() as other:
            self.assertNotIn("access-control-allow-origin", other.ask("GET", "/health")[1])

    def test_a_full_queue(self):
        body = chat("Who are you?", stream=True, ignore_eos=True, max_tokens=8000, n=2)
        streams = [self.server.events(PATH, body) for _ in range(2)]
        for stream in streams:
            next(stream)
        status, headers, answer = self.server.post(PATH, chat("Spell banana."))
        self.assertEqual((status, answer["error"]["code"]), (429, "rate_limit_exceeded"))
        # What can never be had is not to be asked for again.
        status, _, answer = self.server.post(PATH, chat("Spell banana.", n=128))
        self.assertEqual((status, answer["error"]["param"]), (400, "n"))
        self.assertRegex(headers["retry-after"], r"^\d+$")
        self.assertEqual(self.server.ask("GET", "/health")[0], 200)
        for stream in streams:
            stream.close()  # the client goes away
        self.server.wait_idle()
        self.assertEqual(self.server.post(PATH, chat("Spell banana."))[0], 200)

    def test_the_log_can_say_more(self):
        first = len(self.server.lines)
        self.server.post(PATH, chat("Who are you?", strange_field=1))
        self.assertFalse([line for line in self.server.lines[first:] if "strange_field" in line])
        self.server.process.send_signal(signal.SIGHUP)
        self.server.wait_for("log level=debug")
        self.server.post(PATH, chat("Who are you?", strange_field=1))
        self.server.wait_for("unknown field ignored name=strange_field")
        self.server.process.send_signal(signal.SIGHUP)
        self.server.wait_for("log level=info")

    def test_metrics_are_well_formed(self):
        self.server.post(PATH, chat("Who are you?"))
        status, headers, text = self.server.ask("GET", "/metrics")
        self.assertTrue(headers["content-type"].startswith("text/plain; version=0.0.4"))
        types = {}
        for line in text.decode().splitlines():
            if line.startswith("# TYPE "):
                _, _, name, kind = line.split(" ")
                types[name] = kind
            elif not line.startswith("# HELP "):
                found = re.fullmatch(r'([a-z_]+)(\{([a-z]+="[^"]*",?)+\})? [0-9.e+-]+', line)
                self.assertTrue(found, line)
                self.assertIn(re.sub("_(bucket|sum|count)$", "", found[1]), types, line)
        self.assertEqual(types["braid_first_token_seconds"], "histogram")

    def test_version(self):
        got = self.server.ask("GET", "/version")[2]
        self.assertRegex(got["version"], r"^\d+\.\d+\.\d+$")

    def test_paths_and_methods(self):
        self.assertEqual(self.server.ask("GET", "/nothing")[0], 404)
        status, _, body = self.server.ask("GET", PATH)
        self.assertEqual((status, body["error"]["code"]), (405, "method_not_allowed"))
        connection = self.server.connection()
        connection.request("HEAD", "/health")
        answer = connection.getresponse()
        self.assertEqual((answer.status, answer.read()), (200, b""))
        connection.close()


class Priority(server.Case):
    options = ["--max-parallel", 1, "--cache-mb", 0]

    def test_who_is_more_urgent_goes_first(self):
        """While one runs, three wait: they are served by priority, whatever the order they came in."""
        ended = []

        def ask(name, priority, tokens):
            status, _, got = self.server.post(PATH, chat("Who are you?", ignore_eos=True, max_tokens=tokens, priority=priority))
            self.assertEqual(status, 200, got)
            ended.append(name)

        first = threading.Thread(target=ask, args=("first", -9, 1500))
        first.start()
        while self.server.metric("braid_sequences_running") == 0:
            time.sleep(0.005)
        threads = []
        for count, (name, priority) in enumerate((("late", 5), ("usual", 0), ("urgent", -5)), 2):
            threads.append(threading.Thread(target=ask, args=(name, priority, 200)))
            threads[-1].start()
            while self.server.metric("braid_requests_unfinished") < count:
                time.sleep(0.005)
        for thread in (first, *threads):
            thread.join()
        self.assertEqual(ended, ["first", "urgent", "usual", "late"])

    def test_a_running_one_gives_way(self):
        """With one place, a more urgent request takes it at once, and the other one goes on afterwards."""
        slow = self.server.events(PATH, chat("Who are you?", ignore_eos=True, max_tokens=6000, stream=True, priority=1))
        next(slow)
        while self.server.metric("braid_sequences_running") == 0:  # its first event may come before its turn
            time.sleep(0.005)
        self.assertEqual(self.server.post(PATH, chat("Spell banana.", priority=0))[0], 200)
        self.server.wait_metrics("braid_preemptions_total 1")
        self.server.wait_metrics("braid_requests_unfinished 1")
        self.assertEqual(server.chunks(slow)[-1]["choices"][0]["finish_reason"], "length")


class Start(braid.Case):
    @unittest.skipUnless(shutil.which("openssl"), "there is no openssl to make a certificate with")
    def test_tls(self):
        certificate, key = server.certificate(self.folder)
        with server.running("--tls-cert", certificate, "--tls-key", key, tls=server.client_tls(certificate)) as running:
            self.assertEqual(running.post(PATH, chat("Spell banana."))[0], 200)
            got = server.chunks(running.events(PATH, chat("Spell banana.", stream=True)))
            self.assertEqual(got[-1]["choices"][0]["finish_reason"], "stop")
            plain = http.client.HTTPConnection("127.0.0.1", running.port, timeout=20)
            with self.assertRaises((http.client.HTTPException, OSError)):
                plain.request("GET", "/health")
                plain.getresponse()
            plain.close()
        self.fail_in_one_line(["key.pem", "certificate"], "serve", braid.POCKET, "--tls-cert", key, "--tls-key", key, code=2)

    def test_what_the_command_line_refuses(self):
        self.fail_in_one_line(["--tls-key"], "serve", braid.POCKET, "--tls-cert", "x", code=2)
        self.fail_in_one_line(["none"], "serve", self.folder / "none", "--port", 0)
        help_text = self.succeed("serve", "--help")
        self.assertLessEqual(len(re.findall(r"^ +(-\w,)?--[\w-]+", help_text, re.M)), 45)

    def test_what_is_refused_before_the_model_is_loaded(self):
        def refuse(fragments, *options, code=2):
            self.fail_in_one_line(fragments, "serve", self.folder / "none", *options, code=code)

        for port in ("65536", "70000", "-1", "99999999999999999999", "http", "80.5"):
            refuse(["--port", port, "0 to 65535"], f"--port={port}")
        refuse(["--host", "no.such.host.invalid"], "--port", 0, "--host", "no.such.host.invalid")
        refuse(["192.0.2.1"], "--port", 0, "--host", "192.0.2.1", code=1)  # an address that is nobody's
        nothing, text = self.folder / "nothing.pem", self.folder / "text.pem"
        text.write_text("no certificate", encoding="utf-8")
        for pair in ((nothing, nothing), (text, text), (text, nothing)):
            refuse([str(pair[0]), "certificate"], "--port", 0, "--tls-cert", pair[0], "--tls-key", pair[1])
        refuse(["--cache-dir", str(text)], "--port", 0, "--cache-dir", text / "inside", code=1)
        refuse([str(nothing)], "--port", 0, "--api-key-file", nothing, code=1)

    def test_an_address_of_version_6(self):
        try:
            socket.create_server(("::1", 0), family=socket.AF_INET6).close()
        except OSError:
            self.skipTest("this machine has no addresses of version 6")
        process = subprocess.Popen([str(braid.BINARY / "braid"), "serve", str(braid.POCKET), "--port", "0", "--host", "::1"],
                                   stderr=subprocess.PIPE, text=True)
        with process, process.stderr:
            line = next(line for line in process.stderr if line.startswith("address "))
            process.send_signal(signal.SIGTERM)
        self.assertRegex(line, r"^address +http://\[::1\]:\d+$")

    def test_keys_may_come_through_a_pipe(self):
        keys = self.folder / "keys"
        braid.os.mkfifo(keys)
        with subprocess.Popen(["sh", "-c", f"echo 'alice key-of-alice' > {keys}"]), server.running("--api-key-file", keys) as running:
            self.assertEqual(running.ask("GET", "/v1/models")[0], 401)
            self.assertEqual(running.ask("GET", "/v1/models", headers={"Authorization": "Bearer key-of-alice"})[0], 200)

    def test_ready_soon(self):
        start = time.monotonic()
        with server.running() as running:
            running.ask("GET", "/health")
            took = time.monotonic() - start
            self.assertEqual(len(running.lines[:8]), len([line for line in running.lines[:8] if len(line) < 120]))
        self.assertLess(took, 10)  # under a second on a quiet machine


if __name__ == "__main__":
    braid.main()
