# Starts the built server on a free port and speaks HTTP with it. For the tests beside this file.
# SPDX-License-Identifier: Apache-2.0
import contextlib
import http.client
import json
import pathlib
import re
import signal
import socket
import ssl
import subprocess
import sys
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "cli"))
import braid  # noqa: E402

MODEL = "pocket"


class Server:
    """A running `braid serve`. Its standard error is kept, line by line, in `lines`. `before`: a command that runs it."""

    def __init__(self, *options, model=braid.POCKET, tls=None, log="info", before=()):
        command = [*before, str(braid.BINARY / "braid"), "--log", log, "serve", str(model), "--port", "0", *map(str, options)]
        self.tls = tls
        self.lines = []
        self.changed = threading.Condition()
        self.process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, encoding="utf-8")
        self.reader = threading.Thread(target=self.read, daemon=True)
        self.reader.start()
        try:
            self.port = int(self.wait_for(r"^address +https?://[^:]+:(\d+)$")[1])
        except AssertionError:
            self.process.kill()
            raise

    def read(self):
        for line in self.process.stderr:
            with self.changed:
                self.lines.append(line.rstrip("\n"))
                self.changed.notify_all()

    def wait_for(self, pattern, seconds=60, first=0):
        """The match of the first line from `first` on that the pattern is found in."""
        end = time.monotonic() + seconds
        with self.changed:
            while True:
                for line in self.lines[first:]:
                    found = re.search(pattern, line)
                    if found:
                        return found
                left = end - time.monotonic()
                text = "\n".join(self.lines)
                assert left > 0 and (self.process.poll() is None or self.reader.is_alive()), f"no {pattern!r} in\n{text}"
                self.changed.wait(min(left, 0.2))

    def connect(self, timeout=60):
        sock = socket.create_connection(("127.0.0.1", self.port), timeout=timeout)
        return self.tls.wrap_socket(sock, server_hostname="localhost") if self.tls else sock

    def connection(self, timeout=60):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout)
        connection.sock = self.connect(timeout)
        return connection

    def ask(self, method, path, body=None, headers=None, connection=None):
        """Status, headers and body (parsed where it is JSON) of one request."""
        own = connection or self.connection()
        text = body if body is None or isinstance(body, (bytes, str)) else json.dumps(body)
        own.request(method, path, text, {"Content-Type": "application/json", **(headers or {})})
        answer = own.getresponse()
        data = answer.read()
        if connection is None:
            own.close()
        found = {name.lower(): value for name, value in answer.getheaders()}
        if found.get("content-type", "").startswith("application/json"):
            data = json.loads(data)
        return answer.status, found, data

    def post(self, path, body, **options):
        return self.ask("POST", path, body, **options)

    def events(self, path, body, headers=None):
        """Yields the events of a stream: (event name or None, data)."""
        connection = self.connection()
        connection.request("POST", path, json.dumps(body), {"Content-Type": "application/json", **(headers or {})})
        answer = connection.getresponse()
        assert answer.status == 200, (answer.status, answer.read())
        assert answer.getheader("content-type") == "text/event-stream", answer.getheaders()
        yield from read_events(answer)
        connection.close()

    def metric(self, name, headers=None):
        status, _, text = self.ask("GET", "/metrics", headers=headers)
        assert status == 200, status
        for line in text.decode().splitlines():
            if line.rpartition(" ")[0] == name:
                return float(line.rpartition(" ")[2])
        return 0.0

    def wait_metrics(self, text, headers=None, seconds=10):
        """The metrics, once `text` is in them: a request counts a moment after its client has the answer."""
        end = time.monotonic() + seconds
        while True:
            found = self.ask("GET", "/metrics", headers=headers)[2].decode()
            if text in found:
                return found
            assert time.monotonic() < end, found
            time.sleep(0.02)

    def wait_idle(self, seconds=30):
        """Until nothing is unfinished and all state that answers hold is given back."""
        end = time.monotonic() + seconds
        while self.metric("braid_requests_unfinished") or self.metric("braid_sequences_running"):
            assert time.monotonic() < end, "requests are still unfinished"
            time.sleep(0.02)

    def stop(self, how=signal.SIGTERM, seconds=30):
        """The exit code after a signal."""
        if self.process.poll() is None:
            self.process.send_signal(how)
        try:
            return self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise AssertionError("the server did not end:\n" + "\n".join(self.lines))
        finally:
            self.reader.join(5)
            self.process.stderr.close()


def read_events(answer):
    name, data = None, []
    for raw in answer:
        line = raw.decode("utf-8").rstrip("\r\n")
        if not line:
            if data:
                yield name, "\n".join(data)
            name, data = None, []
        elif line.startswith("event: "):
            name = line[7:]
        elif line.startswith("data: "):
            data.append(line[6:])


def chunks(events):
    """The parsed chunks of a chat or completion stream, which must end with [DONE]."""
    data = [data for _, data in events]
    assert data[-1] == "[DONE]", data[-3:]
    return [json.loads(text) for text in data[:-1]]


def chat(text, **fields):
    """The body of a chat that asks one thing, greedily and without thoughts."""
    return {"model": MODEL, "messages": [{"role": "user", "content": text}], "temperature": 0,
            "chat_template_kwargs": {"enable_thinking": False}, **fields}


@contextlib.contextmanager
def running(*options, **more):
    server = Server(*options, **more)
    try:
        yield server
    finally:
        server.stop()


def certificate(folder):
    """The files of a certificate of this machine that signs itself, and of its key."""
    made, key = folder / "certificate.pem", folder / "key.pem"
    subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost",
                    "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1", "-keyout", key, "-out", made], check=True,
                   capture_output=True)
    return made, key


def client_tls(certificate):
    context = ssl.create_default_context(cafile=str(certificate))
    context.check_hostname = False
    return context


class Case(braid.Case):
    """A test of one server that all tests of a class share; `options` are the server's."""

    options = []

    @classmethod
    def setUpClass(cls):
        cls.server = Server(*cls.options)

    @classmethod
    def tearDownClass(cls):
        code = cls.server.stop()
        assert code == 0, "\n".join([f"exit code {code}", *cls.server.lines])
