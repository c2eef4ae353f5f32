# What is read once is not read again: turns of a chat, texts that go on, a restart; and the same tokens in any company.
# SPDX-License-Identifier: Apache-2.0
import threading
import unittest

import server
from server import MODEL, braid, chat

PATH = "/v1/chat/completions"
SYSTEM = "You are a helpful dictionary. " + "Words have meanings, and meanings have words. " * 60


def turns(server_, count, system=SYSTEM):
    """(prompt tokens, cached tokens, text) of each turn of a chat."""
    body = chat("", max_tokens=24)
    body["messages"] = [{"role": "system", "content": system}]
    for number in range(count):
        body["messages"].append({"role": "user", "content": ["Define river.", "Spell banana.", "Who are you?"][number % 3]})
        got = server_.post(PATH, body)[2]
        text = got["choices"][0]["message"]["content"]
        body["messages"].append({"role": "assistant", "content": text})
        yield got["usage"]["prompt_tokens"], got["usage"]["prompt_tokens_details"]["cached_tokens"], text


class Cache(server.Case):
    def test_turns_of_a_chat(self):
        before = 0
        for number, (prompt, cached, _) in enumerate(turns(self.server, 10)):
            if number > 0:
                # At most the last answer with its marks, the new question and the start of the answer are read.
                self.assertGreaterEqual(cached, before - 8, number)
            before = prompt

    def test_another_chat_with_the_same_start(self):
        system = SYSTEM + "Be brief."
        first = next(turns(self.server, 1, system))
        body = chat("Who are you?")
        body["messages"].insert(0, {"role": "system", "content": system})
        usage = self.server.post(PATH, body)[2]["usage"]
        self.assertGreater(usage["prompt_tokens_details"]["cached_tokens"], first[0] - 64)

    def test_texts_that_go_on(self):
        tokens = self.server.post("/tokenize", {"prompt": "A river is a kind of stream. " * 40})[2]["tokens"]
        body = {"model": MODEL, "temperature": 0, "max_tokens": 20, "ignore_eos": True}
        text = self.server.post("/v1/completions", {**body, "prompt": tokens})[2]["choices"][0]["text"]
        longer = tokens + self.server.post("/tokenize", {"prompt": text})[2]["tokens"]
        usage = self.server.post("/v1/completions", {**body, "prompt": longer})[2]["usage"]
        self.assertGreaterEqual(usage["prompt_tokens_details"]["cached_tokens"], len(tokens) - 1)

    def test_the_log_says_why_not_more(self):
        self.server.post(PATH, chat("A question that nobody asked."), headers={"X-Request-Id": "cold"})
        self.server.wait_for("request id=cold .* reuse_limit=(unknown|dropped) ")


class Restart(braid.Case):
    def test_what_is_kept_in_a_folder(self):
        folder = self.folder / "cache"
        folder.mkdir()
        with server.running("--cache-dir", folder) as running:
            _, cached, text = next(turns(running, 1))
            self.assertEqual(cached, 0)
            self.assertEqual(running.stop(), 0)
        with server.running("--cache-dir", folder) as running:
            prompt, cached, again = next(turns(running, 1))
            self.assertGreater(cached, prompt - 64)
            self.assertEqual(again, text)

    def test_no_cache(self):
        with server.running("--cache-mb", 0) as running:
            self.assertEqual([cached for _, cached, _ in turns(running, 3)], [0, 0, 0])


class Deterministic(server.Case):
    options = ["--deterministic", "--max-parallel", 16]

    def test_alone_and_in_company(self):
        words = ["river", "guitar", "spoon", "tower", "cold", "music", "bread", "stone", "paper", "glass", "horse", "apple"]
        bodies = [chat(f"Define {word}. " + "Be brief. " * (7 * i), max_tokens=30, ignore_eos=True)
                  for i, word in enumerate(words)]
        alone = [self.server.post(PATH, body)[2]["choices"][0]["message"]["content"] for body in bodies]
        together = [None] * len(bodies)

        def ask(index):
            together[index] = self.server.post(PATH, bodies[index])[2]["choices"][0]["message"]["content"]
        threads = [threading.Thread(target=ask, args=(index,)) for index in range(len(bodies))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(together, alone)


if __name__ == "__main__":
    braid.main()
