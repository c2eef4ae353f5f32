# Sends a server what no client should, over every API: no crash, no hang, no answer that blames the server, and every
# well-formed request in between is served.
#
# usage: http_fuzz.py [--seconds N] [--seed N]   BRAID_BINARY_DIR names the build, best one with sanitizers
# SPDX-License-Identifier: Apache-2.0
import argparse
import collections
import copy
import json
import random
import select
import socket
import struct
import sys
import time

import server
from server import MODEL

TEXT = "Spell banana."
TOOL = {"type": "function", "function": {"name": "f", "description": "d", "parameters": {
    "type": "object", "properties": {"a": {"type": "string", "maxLength": 5}}, "required": ["a"]}}}
SCHEMA = {"type": "object", "properties": {"a": {"type": "integer", "minimum": 0}, "b": {"enum": ["x", 1, None]},
                                           "c": {"type": "array", "items": {"$ref": "#/$defs/t"}, "maxItems": 2}},
          "required": ["a"], "additionalProperties": False, "$defs": {"t": {"type": "string", "pattern": "^[a-c]{1,3}$"}}}
CHAT = {"model": MODEL, "messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": TEXT},
                                     {"role": "assistant", "content": None, "reasoning_content": "hm", "tool_calls": [
                                         {"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{\"a\": 1}"}}]},
                                     {"role": "tool", "tool_call_id": "c1", "content": [{"type": "text", "text": "4"}]},
                                     {"role": "user", "content": TEXT}],
        "max_tokens": 4, "temperature": 0.7, "top_p": 0.9, "top_k": 5, "min_p": 0.1, "seed": 3, "n": 1, "stop": ["zz"],
        "logprobs": True, "top_logprobs": 2, "logit_bias": {"5": -1.5}, "stream": False, "tools": [TOOL],
        "tool_choice": "auto", "priority": 0, "min_tokens": 1,
        "frequency_penalty": 0.1, "stop_token_ids": [7], "chat_template_kwargs": {"enable_thinking": False},
        "thinking_budget": 3, "prompt_logprobs": 1, "continue_final_message": False, "user": "u"}
FORMED = {"model": MODEL, "messages": [{"role": "user", "content": TEXT}], "max_tokens": 4, "response_format": {
    "type": "json_schema", "json_schema": {"name": "n", "schema": SCHEMA, "strict": True}}}
GUIDED = {"model": MODEL, "prompt": "A river", "max_tokens": 4, "structured_outputs": {"regex": "[a-z]{1,9}(x|y)*"}}
COMPLETION = {"model": MODEL, "prompt": ["A river", "A"], "max_tokens": 3, "echo": True, "logprobs": 2, "n": 2, "best_of": 2}
MESSAGES = {"model": MODEL, "max_tokens": 4, "system": [{"type": "text", "text": "s", "cache_control": {"type": "ephemeral"}}],
            "messages": [{"role": "user", "content": [{"type": "text", "text": TEXT}]},
                         {"role": "assistant", "content": [{"type": "tool_use", "id": "t", "name": "f", "input": {"a": 1}}]},
                         {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t", "content": "4"}]}],
            "tools": [{"name": "f", "input_schema": TOOL["function"]["parameters"]}], "tool_choice": {"type": "auto"},
            "stop_sequences": ["zz"], "thinking": {"type": "enabled", "budget_tokens": 3}, "stream": False}
RESPONSES = {"model": MODEL, "input": [{"role": "user", "content": [{"type": "input_text", "text": TEXT}]}],
             "instructions": "i", "max_output_tokens": 4, "reasoning": {"effort": "low", "summary": "auto"}, "store": True,
             "text": {"format": {"type": "json_schema", "name": "n", "schema": SCHEMA}}, "previous_response_id": None,
             "tools": [{"type": "function", "name": "f", "parameters": TOOL["function"]["parameters"]}], "stream": False}
BODIES = [("/v1/chat/completions", CHAT), ("/v1/chat/completions", FORMED), ("/v1/completions", GUIDED),
          ("/v1/completions", COMPLETION), ("/v1/messages", MESSAGES), ("/v1/messages/count_tokens", MESSAGES),
          ("/v1/responses", RESPONSES), ("/tokenize", {"prompt": TEXT, "return_token_strs": True}),
          ("/tokenize", {"messages": CHAT["messages"], "tools": [TOOL]}), ("/detokenize", {"tokens": [1, 2, 3]})]
# As they stand in the text of a body: no double holds some of them.
NUMBERS = ["1e999", "-1e999", "1e308", "-0", "-1", "0", "9223372036854775807", "9223372036854775808", "-9223372036854775809",
           "18446744073709551616", "2147483648", "-2147483649", "1" * 400, "0." + "0" * 400 + "1", "1e-400", "4.5", "6144"]
BYTES = [b"\xff", b"\xc0\x80", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"\xe2\x82", b"\x00", b"\\ud800", b"\\udc00\\ud800",
         b"\\u0000", b"\\x", b"\x1b[2J", "\u202e\ufeff\U0001f600".encode()]
PATIENCE = 120  # seconds for an answer, of a slow build beside others
STATUSES = {200, 204, 400, 401, 404, 405, 408, 411, 413, 414, 429, 431, 501, 503, 505}


def http(path, body, method="POST", headers=()):
    lines = [f"{method} {path} HTTP/1.1", "Host: x", "Content-Type: application/json", f"Content-Length: {len(body)}", *headers]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


class Answers:
    """Reads answers from a socket as HTTP has them; an AssertionError for what is no HTTP, or for a hang."""

    def __init__(self, sock, seconds):
        self.sock, self.data, self.end = sock, b"", time.monotonic() + seconds

    def more(self):
        ready, _, _ = select.select([self.sock], [], [], max(self.end - time.monotonic(), 0))
        if not ready:
            raise TimeoutError
        try:
            piece = self.sock.recv(1 << 16)
        except OSError:
            piece = b""
        self.data += piece
        return bool(piece)

    def until(self, mark):
        while mark not in self.data:
            if not self.more():
                return None
        head, _, self.data = self.data.partition(mark)
        return head

    def exactly(self, count):
        while len(self.data) < count:
            assert self.more(), f"cut after {len(self.data)} of {count} bytes"
        taken, self.data = self.data[:count], self.data[count:]
        return taken

    def next(self, method="POST"):
        """(status, headers, body) of one answer, or None at the end of the connection."""
        head = self.until(b"\r\n\r\n")
        if head is None:
            assert not self.data, f"half an answer: {self.data[:200]}"
            return None
        lines = head.decode("latin-1").split("\r\n")
        assert lines[0].startswith("HTTP/1.1 "), lines[0]
        status = int(lines[0].split()[1])
        if status == 100:
            return self.next(method)
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines[1:])}
        if method == "HEAD" or status == 204:
            return status, headers, b""
        if headers.get("transfer-encoding") == "chunked":
            body = b""
            while size := int(self.until(b"\r\n") or b"", 16):
                body += self.exactly(size)
                assert self.exactly(2) == b"\r\n"
            assert self.exactly(2) == b"\r\n"
            return status, headers, body
        if "content-length" in headers:
            return status, headers, self.exactly(int(headers["content-length"]))
        while self.more():
            pass
        return status, headers, self.data


def check(answer, path):
    """An answer says what it says in the form of its API, and never that the server failed."""
    status, headers, body = answer
    assert status in STATUSES, (status, body[:300])
    if not body:
        return
    kind = headers.get("content-type", "")
    if kind.startswith("text/event-stream"):
        assert body.endswith(b"\n\n"), body[-200:]
        for line in body.decode("utf-8").split("\n"):
            if line.startswith("data: ") and line != "data: [DONE]":
                event = json.loads(line[6:])
                assert not (isinstance(event.get("error"), dict) and "server" in str(event["error"].get("type", ""))), event
    elif kind == "application/json":
        value = json.loads(body.decode("utf-8"))
        if status >= 400:
            assert value["error"]["message"], value


class Fuzz:
    def __init__(self, running, seed):
        self.server, self.draw = running, random.Random(seed)
        self.statuses, self.idle = collections.Counter(), []

    # ---- what is sent

    def text(self):
        kind = self.draw.randrange(4)
        if kind == 0:
            return "x" * self.draw.choice([0, 1, 255, 5000])
        if kind == 1:
            return "".join(chr(self.draw.choice([0, 7, 34, 92, 127, 0x2028, 0xFEFF, 0x1F600, 0x10FFFF])) for _ in range(6))
        return self.draw.choice(["", "null", "<|im_end|>", "<think>", "</think><tool_call>", "{%", "auto", "a" * 70, "__proto__"])

    def value(self, depth=0):
        kind = self.draw.randrange(10 if depth < 3 else 6)
        if kind < 2:
            return self.draw.choice([None, True, False, {}, [], -1, 0, 1, 10 ** 18, 1.5])
        if kind < 4:
            return self.text()
        if kind < 6:
            return f"\x01{self.draw.choice(NUMBERS)}\x01"  # becomes a bare number
        if kind < 8:
            return [self.value(depth + 1) for _ in range(self.draw.randrange(4))]
        names = ["type", "role", "content", "text", "name", "properties", "$ref", "items", "id", "function", "", "\ud83d\ude00"]
        return {self.draw.choice(names): self.value(depth + 1) for _ in range(self.draw.randrange(4))}

    def places(self, value, found):
        items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
        for key, inner in items:
            found.append((value, key))
            self.places(inner, found)
        return found

    def body(self, source):
        """A body with one to three of its values replaced, removed, doubled or taken from elsewhere."""
        made = copy.deepcopy(source)
        for _ in range(self.draw.choice([1, 1, 1, 3])):
            places = self.places(made, [])
            if not places:
                break
            holder, key = self.draw.choice(places)
            kind = self.draw.randrange(6)
            if kind == 0:
                del holder[key]
            elif kind == 1:
                other, name = self.draw.choice(places)
                holder[key] = copy.deepcopy(other[name])
            elif kind == 2 and isinstance(holder, list):
                holder.extend(copy.deepcopy(holder[key]) for _ in range(self.draw.choice([1, 200])))
            else:
                holder[key] = self.value()
        if self.draw.random() < 0.3:
            made["stream"] = True
            if "prompt" in made or "messages" in made:
                made["stream_options"] = {"include_usage": True}
        text = json.dumps(made, ensure_ascii=self.draw.random() < 0.5).encode("utf-8", "surrogatepass")
        for number in NUMBERS:
            text = text.replace(f'"\\u0001{number}\\u0001"'.encode(), number.encode())
        return text

    def deep(self):
        depth = self.draw.choice([10, 100, 500, 5000, 200000])
        opening, closing = self.draw.choice([(b"[", b"]"), (b'{"a":', b"}"), (b'[{"$ref":', b"}]")])
        nest = opening * depth + b"1" + (closing * depth if self.draw.random() < 0.7 else b"")
        holder = self.draw.choice([b"%s", b'{"model":"pocket","messages":%s}', b'{"model":"pocket","max_tokens":2,"messages":[{"role":'
                                   b'"user","content":"a"}],"response_format":{"type":"json_schema","json_schema":{"name":"n",'
                                   b'"schema":%s}}}', b'{"model":"pocket","prompt":%s}',
                                   b'{"model":"pocket","max_tokens":2,"messages":[{"role":"user","content":"a"}],"tools":[{"type":'
                                   b'"function","function":{"name":"f","parameters":%s}}],"tool_choice":"required"}'])
        return holder.replace(b"%s", nest)

    def damaged(self, data):
        data = bytearray(data)
        for _ in range(self.draw.choice([1, 1, 2, 8])):
            at = self.draw.randrange(len(data) + 1)
            kind = self.draw.randrange(4)
            if kind == 0:
                del data[at:at + self.draw.randrange(1, 9)]
            else:
                data[at:at + kind % 2] = [bytes([self.draw.randrange(256)]), self.draw.choice(BYTES),
                                          data[at:at + self.draw.randrange(64)]][kind - 1]
        return bytes(data) or b"x"

    def header(self):
        names = ["Content-Length", "Transfer-Encoding", "Connection", "Expect", "Host", "X-" + "a" * 300, "Authorization", "Accept",
                 "X-Request-Id", "Upgrade", "Trailer", "Origin", ": ", "A\tB", "\x00", ""]
        values = ["0", "5", "-1", "+5", "5, 5", "0x10", "99999999999999999999", "chunked", "gzip, chunked", "chunked, chunked",
                  "close", "keep-alive", "100-continue", "x" * 9000, "\x7f", "a\r\n b", "h2c", ""]
        return f"{self.draw.choice(names)}: {self.draw.choice(values)}"

    def chunked(self, path, body):
        out, at = b"", 0
        while at < len(body):
            size = self.draw.choice([1, 2, 17, 1000, len(body)])
            piece = body[at:at + size]
            out += f"{len(piece):x}{self.draw.choice(['', ';a=b', '; x'])}\r\n".encode() + piece + b"\r\n"
            at += size
        out += b"0\r\n" + (b"X-Trailer: 1\r\n" if self.draw.random() < 0.2 else b"") + b"\r\n"
        if self.draw.random() < 0.6:
            bad = [b"ffffffffffffffffff\r\n", b"-1\r\n", b"zz\r\n", b"5\n", b"1\r\nab\r\n", b";\r\n", b"7fffffffffffffff\r\n"]
            cut = self.draw.randrange(len(out))
            out = out[:cut] + self.draw.choice(bad) + out[cut:]
        return f"POST {path} HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n".encode() + out

    def target(self):
        return self.draw.choice(["/", "/v1/chat/completions", "/v1/chat/completions?x=%zz&y=%00", "/v1/%6dodels", "/v1/models/%2e%2e",
                                 "*", "http://x/v1/models", "/" + "a" * 9000, "//", "/\x80", "/v1/responses/resp_x/input_items",
                                 "/v1/models/", "/health", "/metrics", "/%", "/v1/responses/" + "%00" * 50])

    # ---- how it is sent

    def connect(self):
        return self.server.connect(timeout=30)

    def exchange(self, data, count=1, path="", method="POST"):
        """Sends all, in pieces, and checks what comes back; at most `count` answers. Their statuses."""
        got = []
        with self.connect() as sock:
            cut = self.draw.randrange(len(data) + 1) if self.draw.random() < 0.3 else 0
            try:
                sock.sendall(data[:cut])
                sock.sendall(data[cut:])
            except OSError:
                pass  # refused before all was sent; what was said is still there
            answers = Answers(sock, PATIENCE)
            try:
                for _ in range(count):
                    answer = answers.next(method)
                    if answer is None:
                        break
                    check(answer, path)
                    got.append(answer[0])
                    answers.end = time.monotonic() + 0.5  # the damage may have made two requests of one
            except TimeoutError as hang:
                if not got:
                    raise AssertionError(f"no answer to {data[:3000]!r}") from hang
            except (json.JSONDecodeError, UnicodeDecodeError, ValueError, KeyError, AssertionError) as fault:
                raise AssertionError(f"{fault!r}\nafter {data[:3000]!r}") from fault
        self.statuses.update(got)
        return got

    def one(self):
        path, source = self.draw.choice(BODIES)
        kind = self.draw.randrange(12)
        if kind < 5:
            self.exchange(http(path, self.body(source)), path=path)
        elif kind == 5:
            self.exchange(http(path, self.deep()), path=path)
        elif kind == 6:
            self.exchange(http(path, self.damaged(json.dumps(source).encode())), path=path)
        elif kind == 7:
            self.exchange(self.damaged(http(path, json.dumps(source).encode())), count=3)
        elif kind == 8:
            self.exchange(self.chunked(path, json.dumps(source).encode()))
        elif kind == 9:
            method = self.draw.choice(["GET", "HEAD", "PUT", "DELETE", "OPTIONS", "POST", "TRACE", "X" * 40, "get", ""])
            headers = [self.header() for _ in range(self.draw.choice([1, 2, 5, 300]))]
            self.exchange(f"{method} {self.target()} HTTP/{self.draw.choice(['1.1', '1.1', '1.0', '2.0', '9', '1.1 '])}\r\n"
                          .encode("latin-1") + "\r\n".join(headers).encode("latin-1") + b"\r\n\r\n", method=method)
        elif kind == 10:
            self.pipeline()
        else:
            self.dawdle()

    def pipeline(self):
        """Whole requests one after another, the last perhaps damaged: those before it are answered in order."""
        bodies = [json.dumps({"prompt": "a" * number}).encode() for number in range(1, self.draw.randrange(2, 12))]
        data = b"".join(http("/tokenize", body) for body in bodies)
        more = self.damaged(http("/tokenize", bodies[0])) if self.draw.random() < 0.5 else b""
        with self.connect() as sock:
            sock.sendall(data + more)
            answers = Answers(sock, PATIENCE)
            for body in bodies:
                expected = self.server.post("/tokenize", body)[2]["count"]
                status, _, got = answers.next()
                assert (status, json.loads(got)["count"]) == (200, expected), (status, got[:200])

    def dawdle(self):
        """Leaves connections open in all states; some of them are gone on with, shut or reset later."""
        path, source = self.draw.choice(BODIES)
        data = http(path, json.dumps(source).encode())
        sock = self.connect()
        sock.sendall(data[:self.draw.randrange(len(data))])
        self.idle.append(sock)
        while len(self.idle) > 40:
            old = self.idle.pop(self.draw.randrange(len(self.idle)))
            kind = self.draw.randrange(3)
            try:
                if kind == 0:
                    old.sendall(b"x" * self.draw.choice([1, 100]))
                elif kind == 1:
                    old.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                else:
                    old.shutdown(socket.SHUT_WR)
            except OSError:
                pass  # the server gave up on it
            old.close()

    def run(self, seconds):
        end, number, text = time.monotonic() + seconds, 0, None
        while time.monotonic() < end:
            self.one()
            number += 1
            if number % 20 == 0:
                text = self.well_formed(text)
        for sock in self.idle:
            sock.close()
        return number

    def well_formed(self, before):
        """A right request is answered as ever, once those before it have left it a place."""
        end = time.monotonic() + 120
        while True:
            status, _, got = self.server.post("/v1/chat/completions", server.chat(TEXT))
            if status == 200:
                text = got["choices"][0]["message"]["content"]
                assert before in (None, text), (before, text)
                return text
            assert status == 429 and time.monotonic() < end, (status, got)
            time.sleep(0.2)


def fuzz(seconds, seed):
    """Fuzzes a server of the built program; one line about it. An AssertionError says what went wrong."""
    options = ["--max-body-mb", 1, "--request-timeout", 2, "--context", 256, "--max-tokens", 16, "--max-parallel", 8,
               "--max-queue", 24]
    with server.running(*options, log="warning") as running:
        state = [running.metric(f"braid_state_{what}_free") for what in ("slots", "pages")]
        made = Fuzz(running, seed)
        try:
            number = made.run(seconds)
        except (OSError, server.http.client.HTTPException) as fault:
            running.process.poll()
            raise AssertionError(f"{fault!r}; exit {running.process.returncode}\n" + "\n".join(running.lines[-60:])) from fault
        running.wait_idle(120)
        assert [running.metric(f"braid_state_{what}_free") for what in ("slots", "pages")] == state, "state was not given back"
        code = running.stop()
        assert code == 0, f"exit code {code}\n" + "\n".join(running.lines[-60:])
        said = [line for line in running.lines if "Sanitizer" in line or "runtime error" in line or line.startswith("error ")]
        assert not said, "\n".join(said[:20])
    return f"{number} cases, statuses {dict(sorted(made.statuses.items()))}"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    print(fuzz(options.seconds, options.seed))


if __name__ == "__main__":
    sys.exit(main())
