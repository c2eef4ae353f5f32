# braid bench --serve: its figures against a server whose times are known, and against the real one.
# SPDX-License-Identifier: Apache-2.0
import http.server
import json
import os
import pathlib
import shutil
import socket
import sys
import threading
import time
import unittest
import unittest.mock

import braid

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "server"))
import server  # noqa: E402


class Known(http.server.BaseHTTPRequestHandler):
    """Answers chats after FIRST seconds, token by token with GAP seconds between; the body of /fault makes it fail."""
    protocol_version = "HTTP/1.1"
    FIRST, GAP = 0.1, 0.03
    strict = usage = closes = dies = False
    bodies = []

    def log_message(self, *_):
        pass

    def whole(self, status, value, kind="application/json"):
        data = value if isinstance(value, bytes) else json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def do_GET(self):
        self.whole(200, {"object": "list", "data": [{"id": "known"}, {"id": "other"}]})

    def event(self, value):
        data = b"data: " + (value if isinstance(value, bytes) else json.dumps(value).encode()) + b"\r\n\r\n"
        self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        words = len(body["messages"][0]["content"].split())
        if self.strict and "ignore_eos" in body:
            return self.whole(400, {"error": {"message": "Unrecognized request argument: ignore_eos"}})
        if not body.get("stream"):
            return self.whole(200, {"choices": [{"message": {"content": "x"}}], "usage": {"prompt_tokens": 3 * words + 7}})
        self.bodies.append(body)
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        if self.closes:
            self.send_header("Connection", "close")
        self.end_headers()
        self.event({"choices": [{"index": 0, "delta": {"role": "assistant", "content": ""}}]})
        for i in range(body["max_tokens"]):
            time.sleep(self.GAP if i else self.FIRST)
            if self.dies and i == 1:
                self.event({"error": {"message": "the model melted"}})
                break
            self.event({"choices": [{"index": 0, "delta": {"content": "a "}}]})
        if self.usage:
            self.event({"choices": [], "usage": {"prompt_tokens": 3 * words + 7, "completion_tokens": 2 * body["max_tokens"]}})
        self.event(b"[DONE]")
        self.wfile.write(b"0\r\n\r\n")


class Page(Known):
    """A web site that is no such server."""

    def do_GET(self):
        self.whole(200, b"<html>hello</html>", "text/html")

    do_POST = do_GET


class Elsewhere(Known):
    def do_GET(self):
        self.whole(404, b"nothing here", "text/plain")

    do_POST = do_GET


class KnownServer:
    def __init__(self, handler=Known, **settings):
        self.handler = type("Handler", (handler,), {"bodies": [], **settings})
        self.http = http.server.ThreadingHTTPServer(("127.0.0.1", 0), self.handler)
        self.url = f"http://127.0.0.1:{self.http.server_address[1]}"
        threading.Thread(target=self.http.serve_forever, daemon=True).start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.http.shutdown()
        self.http.server_close()


class Figures(braid.Case):
    def measure(self, url, *more):
        return json.loads(self.succeed("bench", "--serve", url, "--json", *more))

    def times(self, result):
        return {row["kind"]: row for row in result["times"]}

    def test_times_of_a_server_that_keeps_to_a_beat(self):
        with KnownServer() as known:
            result = self.measure(known.url, "--streams", 2, "--requests", 6, "--answer-tokens", 5)
            bodies = known.handler.bodies
        self.assertEqual((result["requests"], result["failed"], result["model"]), (6, 0, "known"))
        self.assertEqual(result["answer_tokens"], 30)  # the pieces, as this server does not count
        times = self.times(result)
        whole = Known.FIRST + 4 * Known.GAP
        # Sleeps never end early; how late a busy machine wakes is not this program's.
        self.assertGreaterEqual(times["first token"]["p50_ms"], 1e3 * Known.FIRST)
        self.assertGreaterEqual(times["request"]["p50_ms"], 1e3 * whole)
        self.assertGreaterEqual(times["gap"]["mean_ms"], 0.99 * 1e3 * Known.GAP)
        # What is heard of them all has to fit in the time that the run took on two streams.
        self.assertGreaterEqual(result["seconds"], 3 * whole)
        self.assertAlmostEqual(result["requests_per_s"] * result["seconds"], 6)
        self.assertAlmostEqual(result["tokens_per_s"] * result["seconds"], 30)
        self.assertLessEqual(3 * times["request"]["mean_ms"], 1e3 * result["seconds"])
        self.assertLessEqual(times["first token"]["mean_ms"] + 4 * times["gap"]["mean_ms"], times["request"]["mean_ms"] + 1)
        for row in times.values():
            self.assertEqual(len(row["shares_ms"]), 21)
            self.assertEqual(row["shares_ms"], sorted(row["shares_ms"]))
            self.assertEqual((row["shares_ms"][10], row["shares_ms"][18], row["shares_ms"][20]),
                             (row["p50_ms"], row["p90_ms"], row["most_ms"]))
        # 64 tokens where a word has 3 and the template 7.
        self.assertEqual({len(body["messages"][0]["content"].split()) for body in bodies}, {19})
        self.assertEqual(len({body["messages"][0]["content"] for body in bodies}), 6)
        self.assertTrue(all(body["ignore_eos"] and body["max_tokens"] == 5 for body in bodies))

    def test_lengths_and_seeds(self):
        def ask(*more):
            with KnownServer(FIRST=0, GAP=0, usage=True, closes=True) as known:
                result = self.measure(known.url, "--streams", 1, "--requests", 20, "--prompt-tokens", "40-100", "--answer-tokens", "2-4", *more)
                return result, known.handler.bodies
        result, bodies = ask()
        lengths = [3 * len(body["messages"][0]["content"].split()) + 7 for body in bodies]
        answers = [body["max_tokens"] for body in bodies]
        self.assertEqual((result["prompt_tokens"], result["answer_tokens"]), (sum(lengths), 2 * sum(answers)))
        self.assertEqual(set(answers), {2, 3, 4})
        self.assertTrue(all(39 <= length <= 101 for length in lengths), lengths)
        self.assertEqual(ask()[1], bodies)
        self.assertNotEqual(ask("--seed", 2)[1], bodies)

    def test_a_rate_does_not_wait_for_answers(self):
        # Twenty a second for answers of half a second: about ten run at a time. The times of 40 arrivals are a Gamma
        # distribution with mean 2 s and deviation 0.32 s; five of them are allowed, and a busy machine only adds.
        with KnownServer(FIRST=0.5, GAP=0) as known:
            result = self.measure(known.url, "--rate", 20, "--requests", 40, "--answer-tokens", 1)
        self.assertEqual((result["requests"], result["failed"]), (40, 0))
        self.assertGreater(result["seconds"], 0.5 + 2 - 5 * 0.32)
        self.assertLess(result["seconds"], 20)  # one after the other
        self.assertNotIn("gap", self.times(result))

    def test_seconds_end_a_run(self):
        with KnownServer(FIRST=0.05, GAP=0) as known:
            result = self.measure(known.url, "--streams", 2, "--seconds", 0.5, "--answer-tokens", 1)
        self.assertGreaterEqual(result["requests"], 2)
        self.assertLessEqual(result["requests"], 20)

    def test_a_server_that_knows_no_ignore_eos(self):
        with KnownServer(strict=True, FIRST=0, GAP=0) as known:
            result = self.measure(known.url, "--requests", 3, "--answer-tokens", 2)
        self.assertEqual((result["failed"], result["load"]["whole_answers"]), (0, False))

    def test_faults_are_counted(self):
        with KnownServer(FIRST=0, GAP=0, dies=True) as known:
            result = self.measure(known.url, "--streams", 1, "--requests", 10, "--answer-tokens", "1-3", "--seed", 4)
        self.assertEqual(sum(fault["count"] for fault in result["faults"]), result["failed"])
        self.assertIn("the model melted", result["faults"][0]["fault"])
        self.assertEqual(result["failed"], sum(body["max_tokens"] > 1 for body in known.handler.bodies))

    def test_output_files_and_their_comparison(self):
        before, after, plot = (self.folder / name for name in ("before.json", "after.json", "plot.svg"))
        with KnownServer(FIRST=0, GAP=0) as known:
            for out in (before, after):
                text = self.succeed("bench", "--serve", known.url + "/v1/", "--requests", 5, "--out", out, "--svg", plot)
        self.assertIn("first token", text)
        self.assertEqual(plot.read_text().count("<polyline"), 2)
        self.assertIn("tokens_per_s", self.succeed("bench", before, after))
        other = braid.read_json(after)
        other["load"]["streams"] = 99
        braid.write_json(after, other)
        self.fail_in_one_line(["differ"], "bench", before, after)


class Faults(braid.Case):
    def test_nobody_listens(self):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            url = f"127.0.0.1:{free.getsockname()[1]}"
        self.fail_in_one_line([url, "nobody listens"], "bench", "--serve", url)
        self.fail_in_one_line(["no-such-host.invalid"], "bench", "--serve", "http://no-such-host.invalid:80")

    def test_who_answers_is_no_such_server(self):
        with KnownServer(Page) as page:
            self.fail_in_one_line([page.url, "lists no model"], "bench", "--serve", page.url)
            self.fail_in_one_line([page.url, "no OpenAI-compatible server"], "bench", "--serve", page.url, "--model", "x")
        with KnownServer(Elsewhere) as other:
            for more in ([], ["--model", "x"]):
                self.fail_in_one_line([other.url, "404"], "bench", "--serve", other.url, *more)

    def test_a_numbered_host_of_version_six(self):
        seen = []

        class Six(Known):
            def do_GET(self):
                seen.append(self.headers["Host"])
                self.whole(404, {"error": "nothing"})

        class SixServer(http.server.ThreadingHTTPServer):
            address_family = socket.AF_INET6

        try:
            running = SixServer(("::1", 0), Six)
        except OSError:
            self.skipTest("no address ::1 here")
        threading.Thread(target=running.serve_forever, daemon=True).start()
        url = f"[::1]:{running.server_address[1]}"
        self.fail_in_one_line(["404: nothing"], "bench", "--serve", url)
        running.shutdown()
        running.server_close()
        self.assertEqual(seen, [url])

    def test_addresses(self):
        for url in ("https://", "ftp://x", "http://", "http://x:y", "http://x:1/v1?a=b", "http://:80", "http://a b"):
            self.fail_in_one_line(["--serve", url], "bench", "--serve", url, code=2)

    def test_options(self):
        for arguments, flag in ((["--rate", "3"], "--rate"), (["--model", "x"], "--model")):
            self.fail_in_one_line([flag, "--serve"], "bench", braid.POCKET, *arguments, code=2)
        url = "127.0.0.1:1"
        for arguments, flag in ((["--repeats", "3"], "--repeats"), (["--device", "cpu"], "--device"), ([braid.POCKET], "MODEL"),
                                (["--rate", "3", "--streams", "2"], "--rate"), (["--prompt-tokens", "9-3"], "--prompt-tokens"),
                                (["--prompt-tokens", "0"], "--prompt-tokens"), (["--answer-tokens", "x"], "--answer-tokens"),
                                (["--rate", "-1"], "--rate")):
            self.fail_in_one_line([flag], "bench", "--serve", url, *arguments, code=2)


@unittest.skipUnless(shutil.which("openssl"), "there is no openssl to make a certificate with")
class Tls(braid.Case):
    def test_a_server_with_a_certificate(self):
        certificate, key = server.certificate(self.folder)
        with server.running("--tls-cert", certificate, "--tls-key", key, tls=server.client_tls(certificate)) as running:
            load = ("bench", "--serve", f"https://127.0.0.1:{running.port}", "--streams", 3, "--requests", 9,
                    "--prompt-tokens", 40, "--answer-tokens", 8, "--json")
            self.fail_in_one_line(["certificate verify failed"], *load)
            with unittest.mock.patch.dict(os.environ, {"SSL_CERT_FILE": str(certificate)}):
                result = json.loads(self.succeed(*load))
                self.assertEqual((result["failed"], result["answer_tokens"]), (0, 72))


class Real(server.Case):
    options = ["--api-key", "secret"]
    KEY = {"Authorization": "Bearer secret"}

    def url(self):
        return f"http://127.0.0.1:{self.server.port}"

    def test_keys_and_models(self):
        self.fail_in_one_line([self.url(), "401", "key"], "bench", "--serve", self.url())
        self.fail_in_one_line(["401"], "bench", "--serve", self.url(), "--api-key", "wrong")
        self.fail_in_one_line(["404", "other"], "bench", "--serve", self.url(), "--api-key", "secret", "--model", "other")

    def test_the_server_counts_the_same(self):
        def counted(kind):
            return self.server.metric(f'braid_tokens_total{{kind="{kind}",key="key1"}}', headers=self.KEY)

        before = counted("completion")
        result = json.loads(self.succeed("bench", "--serve", self.url(), "--api-key", "secret", "--streams", 4, "--requests", 12,
                                         "--prompt-tokens", "50-90", "--answer-tokens", 20, "--json"))
        self.assertEqual((result["requests"], result["failed"], result["model"]), (12, 0, "pocket"))
        self.assertEqual(result["answer_tokens"], 240)
        self.assertTrue(12 * 40 < result["prompt_tokens"] < 12 * 100, result["prompt_tokens"])
        self.assertEqual(sorted(row["kind"] for row in result["times"]), ["first token", "gap", "request"])
        # Three requests of one token found out how the server counts.
        end = time.monotonic() + 10  # a request counts a moment after its client has the answer
        while counted("completion") - before < 243 and time.monotonic() < end:
            time.sleep(0.02)
        self.assertEqual(counted("completion") - before, 240 + 3)


if __name__ == "__main__":
    braid.main()
