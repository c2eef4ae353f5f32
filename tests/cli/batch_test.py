# braid run --batch: lines of requests become lines of answers, whatever happens on the way.
# SPDX-License-Identifier: Apache-2.0
import json
import os
import signal
import subprocess
import time

import braid

WORDS = ["river", "guitar", "lighthouse", "spoon", "banana", "tower", "music", "stream"]


def chat(custom_id, text, **fields):
    body = {"model": "pocket", "messages": [{"role": "user", "content": text}], "temperature": 0,
            "chat_template_kwargs": {"enable_thinking": False}, **fields}
    return {"custom_id": custom_id, "method": "POST", "url": "/v1/chat/completions", "body": body}


class Batch(braid.Case):
    def setUp(self):
        super().setUp()
        self.batch, self.out = self.folder / "in.jsonl", self.folder / "out.jsonl"

    def write(self, lines):
        text = [line if isinstance(line, str) else json.dumps(line) for line in lines]
        self.batch.write_text("\n".join(text) + "\n", encoding="utf-8")

    def arguments(self, *more):
        return ("run", braid.POCKET, "--batch", self.batch, "--out", self.out, *more)

    def answers(self):
        return [json.loads(line) for line in self.out.read_text(encoding="utf-8").splitlines()]

    def by_id(self):
        answers = self.answers()
        found = {answer["custom_id"]: answer for answer in answers}
        self.assertEqual(len(found), len(answers), "an id came twice")
        return found

    def test_answers_are_those_of_single_questions(self):
        self.write([chat(word, f'What does "{word}" mean?') for word in WORDS])
        printed = self.succeed(*self.arguments("--max-parallel", 3))
        self.assertIn("8 requests: 0 answered before, 8 now, 0 failed", printed)
        found = self.by_id()
        self.assertEqual(sorted(found), sorted(WORDS))
        ids = set()
        for word, answer in found.items():
            self.assertEqual(sorted(answer), ["custom_id", "error", "id", "response"])
            self.assertIsNone(answer["error"])
            self.assertEqual(answer["response"]["status_code"], 200)
            ids |= {answer["id"], answer["response"]["request_id"]}
            body = answer["response"]["body"]
            self.assertEqual(body["object"], "chat.completion")
            text = body["choices"][0]["message"]["content"]
            alone = self.succeed("run", braid.POCKET, f'What does "{word}" mean?', "--temperature", 0, "--think", "off")
            self.assertEqual(text.strip(), alone.strip())
        self.assertEqual(len(ids), 2 * len(WORDS))

    def test_completions_and_standard_input(self):
        line = {"custom_id": "a", "method": "POST", "url": "/v1/completions",
                "body": {"model": str(braid.POCKET), "prompt": ["river", "tower"], "n": 2, "max_tokens": 3, "ignore_eos": True}}
        self.succeed("run", braid.POCKET, "--batch", "-", "--out", self.out, text=json.dumps(line))
        body = self.by_id()["a"]["response"]["body"]
        self.assertEqual([choice["index"] for choice in body["choices"]], [0, 1, 2, 3])
        self.assertEqual(body["usage"]["completion_tokens"], 12)

    def test_a_line_that_names_no_model_asks_the_loaded_one(self):
        lines = [chat("none", "Define river."), chat("null", "Define river.", model=None), chat("named", "Define river.")]
        del lines[0]["body"]["model"]
        lines.append({"custom_id": "text", "method": "POST", "url": "/v1/completions", "body": {"prompt": "river", "max_tokens": 3}})
        self.write(lines)
        self.succeed(*self.arguments("--max-tokens", 5))
        bodies = {name: answer["response"]["body"] for name, answer in self.by_id().items()}
        self.assertEqual({body["model"] for body in bodies.values()}, {"pocket"})
        texts = {name: bodies[name]["choices"][0]["message"]["content"] for name in ("none", "null", "named")}
        self.assertEqual(len(set(texts.values())), 1, texts)

    def test_defaults_of_the_command_line_stand_under_what_lines_say(self):
        self.write([chat("short", "Define river.", temperature=None), chat("own", "Define river.", max_tokens=5)])
        self.succeed(*self.arguments("--max-tokens", 2, "--temperature", 0))
        found = {name: answer["response"]["body"]["usage"]["completion_tokens"] for name, answer in self.by_id().items()}
        self.assertEqual(found, {"short": 2, "own": 5})

    def test_faults_have_lines_of_their_own(self):
        good = chat("good", "Define river.")
        self.write([good, "{", "[]", {"method": "POST"}, good, {**chat("get", "x"), "method": "GET"},
                    {**chat("url", "x"), "url": "/v1/embeddings"}, {**chat("body", "x"), "body": 3},
                    chat("stream", "x", stream=True), chat("hot", "x", temperature="hot"), chat("model", "x", model="other"), ""])
        self.fail_in_one_line(["10 of 11 requests failed", str(self.out)], *self.arguments())
        answers = self.answers()
        self.assertEqual(len(answers), 11)
        named = {answer["custom_id"]: answer for answer in answers if answer["custom_id"] is not None}
        self.assertEqual(named["good"]["response"]["status_code"], 200)
        nameless = {answer["error"]["line"]: answer["error"]["message"] for answer in answers if answer["custom_id"] is None}
        self.assertEqual(sorted(nameless), [2, 3, 4, 5])
        for number, fragment in ((2, "not valid JSON"), (3, "JSON object"), (4, "custom_id"), (5, "'good' came before")):
            self.assertIn(fragment, nameless[number])
        for name, fragment in (("get", "POST"), ("url", "/v1/embeddings"), ("body", "'body'"), ("stream", "stream")):
            self.assertIsNone(named[name]["response"])
            self.assertIn(fragment, named[name]["error"]["message"])
        for name, status, param in (("hot", 400, "temperature"), ("model", 404, "model")):
            self.assertIsNone(named[name]["error"])
            self.assertEqual(named[name]["response"]["status_code"], status)
            self.assertEqual(named[name]["response"]["body"]["error"]["param"], param)
        # Faults count as answered, and still as faults.
        before = self.out.read_bytes()
        self.fail_in_one_line(["11 requests, all of them answered before, 10 with a failure"], *self.arguments())
        self.assertEqual(self.out.read_bytes(), before)

    def test_an_empty_file(self):
        self.batch.write_bytes(b"")
        self.fail_in_one_line([f"{self.batch}: holds no request"], *self.arguments())
        self.assertFalse(self.out.exists())

    def test_what_was_killed_goes_on(self):
        lines = [chat(f"line-{i}", f"Define {WORDS[i % 8]}.", ignore_eos=True, max_tokens=64) for i in range(150)]
        self.write(lines)
        process = subprocess.Popen([str(braid.BINARY / "braid"), *map(str, self.arguments("--max-parallel", 4))],
                                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        end = time.monotonic() + 60
        while not self.out.exists() or self.out.read_bytes().count(b"\n") < 20:
            self.assertLess(time.monotonic(), end)
            time.sleep(0.01)
        process.send_signal(signal.SIGKILL)
        process.wait()
        whole = self.out.read_bytes()
        whole = whole[:whole.rindex(b"\n") + 1]
        kept = whole.count(b"\n")
        self.assertLess(kept, 150, "it was not killed in the middle")
        # As if the kill had hit a write.
        self.out.write_bytes(whole[:-40])
        code, out, err = braid.run(*self.arguments())
        self.assertEqual(code, 0, err)
        self.assertIn("the last line was not written whole", err)
        self.assertIn(f"{kept - 1} answered before, {151 - kept} now", out)
        self.assertTrue(self.out.read_bytes().startswith(whole[:whole[:-1].rindex(b"\n") + 1]))
        found = self.by_id()
        self.assertEqual(len(found), 150)
        for answer in found.values():
            self.assertEqual(answer["response"]["body"]["usage"]["completion_tokens"], 64)

    def test_an_interrupt_keeps_what_was_answered(self):
        self.write([chat(f"line-{i}", "Define river.", ignore_eos=True, max_tokens=256) for i in range(100)])
        process = subprocess.Popen([str(braid.BINARY / "braid"), *map(str, self.arguments("--max-parallel", 4))],
                                   stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        end = time.monotonic() + 60
        while not self.out.exists() or not self.out.read_bytes():
            self.assertLess(time.monotonic(), end)
            time.sleep(0.01)
        process.send_signal(signal.SIGINT)
        self.assertEqual(process.wait(30), -signal.SIGINT, process.stderr.read())
        process.stderr.close()
        self.assertTrue(all(answer["response"]["status_code"] == 200 for answer in self.answers()))
        self.assertLess(len(self.answers()), 100)

    def test_a_terminal_sees_how_far_it_is(self):
        self.write([chat(f"line-{i}", "Define river.", ignore_eos=True, max_tokens=128) for i in range(20)])
        code, text = braid.run_on_terminal(*self.arguments("--max-parallel", 2))
        self.assertEqual(code, 0, text)
        self.assertRegex(text, r"answering \[#*-*\] +\d+%  \d+/20")

    def test_places_that_take_no_answers(self):
        self.write([chat("a", "Define river.")])
        self.fail_in_one_line(["in.jsonl:1", "not an answer of a batch"], "run", braid.POCKET, "--batch", self.batch, "--out", self.batch)
        self.fail_in_one_line(["missing.jsonl"], "run", braid.POCKET, "--batch", self.folder / "missing.jsonl", "--out", self.out)
        self.fail_in_one_line([str(self.folder)], "run", braid.POCKET, "--batch", self.batch, "--out", self.folder)
        if os.path.exists("/dev/full"):
            self.fail_in_one_line(["/dev/full", "not a regular file"], "run", braid.POCKET, "--batch", self.batch, "--out", "/dev/full")

    def test_options(self):
        self.write([chat("a", "Define river.")])
        for more in (["hello"], ["--system", "x"], ["--seed", 1], ["--json"], ["--stop", "x"]):
            self.fail_in_one_line(["--batch"], *self.arguments(*more), code=2)
        for alone in (["--batch", self.batch], ["--out", self.out], ["--max-parallel", 3]):
            self.fail_in_one_line([alone[0]], "run", braid.POCKET, *alone, code=2)
        self.fail_in_one_line(["--max-tokens"], *self.arguments("--max-tokens", 0), code=2)


if __name__ == "__main__":
    braid.main()
