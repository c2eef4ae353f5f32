# What is read once is not read again: turns of a chat, texts that go on, a restart; and the same tokens in any company.
# SPDX-License-Identifier: Apache-2.0
import threading
import unittest

import server
from server import MODEL, braid, chat

PATH = "/v1/chat/completions"
SYSTEM = "You are a helpful dictionary. " + "Words have meanings, and meanings have words. " * 60


# Every message is written as it stands, so that each rendering begins with the one before it and its answer.
APPENDED = ("{% for m in messages %}{{ '<|im_start|>' + m.role + '\\n' + ('<think>\\n\\n</think>\\n\\n' if m.role == 'assistant' else '')"
            " + m.content + '<|im_end|>\\n' }}{% endfor %}{% if add_generation_prompt %}"
            "{{ '<|im_start|>assistant\\n<think>\\n\\n</think>\\n\\n' }}{% endif %}")


def turns(server_, count, system=SYSTEM, **fields):
    """(prompt tokens, cached tokens, tokens of the answer, text) of each turn of a chat."""
    body = chat("", max_tokens=24, **fields)
    body["messages"] = [{"role": "system", "content": system}]
    for number in range(count):
        body["messages"].append({"role": "user", "content": ["Define river.", "Spell banana.", "Who are you?"][number % 3]})
        got = server_.post(PATH, body)[2]
        text = got["choices"][0]["message"]["content"]
        body["messages"].append({"role": "assistant", "content": text})
        usage = got["usage"]
        yield usage["prompt_tokens"], usage["prompt_tokens_details"]["cached_tokens"], usage["completion_tokens"], text


class Cache(server.Case):
    def test_turns_of_a_chat(self):
        before, computed = 0, []
        suffix = len(self.server.post("/tokenize", {"prompt": "<|im_start|>assistant\n<think>\n\n</think>\n\n"})[2]["tokens"])
        for number, (prompt, cached, _, _) in enumerate(turns(self.server, 10)):
            if number > 0:
                # The last answer, the new question and the start of an answer are read, nothing that lies before them.
                self.assertGreaterEqual(cached, before - suffix, number)
            computed.append(prompt - cached)
            before = prompt
        # The second, fifth and eighth turn add the same texts: what they compute does not grow with the chat.
        self.assertEqual(computed[4], computed[7])
        self.assertEqual(computed[3], computed[9])
        self.assertLessEqual(computed[9], max(computed[1:4]))

    def test_turns_that_are_appended_compute_nothing_again(self):
        held = 0
        for number, (prompt, cached, answered, _) in enumerate(turns(self.server, 10, SYSTEM + "Go on.", chat_template=APPENDED)):
            if number > 0:
                self.assertGreaterEqual(cached, held, number)
            # All but the token that ended the answer, which was drawn and not computed.
            held = prompt + answered - 1

    def test_chats_that_share_four_thousand_tokens(self):
        system = "Words have meanings, and meanings have words. " * 450
        first = next(turns(self.server, 1, system))
        self.assertGreater(first[0], 4000)
        body = chat("Who are you?", max_tokens=4)
        body["messages"].insert(0, {"role": "system", "content": system})
        usage = self.server.post(PATH, body)[2]["usage"]
        shared = usage["prompt_tokens"] - len(self.server.post("/tokenize", {"prompt": "Who are you?"})[2]["tokens"])
        self.assertGreaterEqual(usage["prompt_tokens_details"]["cached_tokens"], shared - 64)

    def test_the_same_prompt_again(self):
        tokens = self.server.post("/tokenize", {"prompt": "A stream is a kind of water. " * 30})[2]["tokens"]
        body = {"model": MODEL, "prompt": tokens, "temperature": 0, "max_tokens": 5, "ignore_eos": True}
        answers = [self.server.post("/v1/completions", body)[2] for _ in range(4)]
        cached = [answer["usage"]["prompt_tokens_details"]["cached_tokens"] for answer in answers]
        self.assertEqual(cached, [0, *[len(tokens) - 1] * 3])
        self.assertEqual(len({answer["choices"][0]["text"] for answer in answers}), 1)

    def test_a_prompt_that_is_all_of_an_earlier_one_and_its_answer(self):
        tokens = self.server.post("/tokenize", {"prompt": "A tower is a kind of building. " * 30})[2]["tokens"]
        body = {"model": MODEL, "temperature": 0, "ignore_eos": True}
        for count in range(20, 0, -1):
            text = self.server.post("/v1/completions", {**body, "prompt": tokens, "max_tokens": count})[2]["choices"][0]["text"]
            whole = tokens + self.server.post("/tokenize", {"prompt": text})[2]["tokens"]
            if len(whole) == len(tokens) + count:  # else the answer spells its text in other tokens
                break
        usage = self.server.post("/v1/completions", {**body, "prompt": whole, "max_tokens": 1})[2]["usage"]
        self.assertEqual(usage["prompt_tokens_details"]["cached_tokens"], len(whole) - 1)

    def test_each_api_says_what_was_cached(self):
        system = SYSTEM + "Say what was cached."
        messages = [{"role": "user", "content": "Spell banana."}]
        asked = [("/v1/messages", {"system": system, "messages": messages, "max_tokens": 4}),
                 ("/v1/responses", {"instructions": system, "input": "Spell banana.", "max_output_tokens": 4,
                                    "reasoning": {"effort": "none"}}),
                 (PATH, {**chat("Spell banana.", max_tokens=4),
                         "messages": [{"role": "system", "content": system}, *messages]})]
        usages = [self.server.post(path, {"model": MODEL, "temperature": 0, **body})[2]["usage"] for path, body in asked * 2]
        prompt = usages[2]["prompt_tokens"]
        for usage in (usages[0], usages[3]):
            self.assertEqual(usage["input_tokens"] + usage["cache_read_input_tokens"], prompt)
            self.assertEqual(usage["cache_creation_input_tokens"], 0)
        self.assertGreater(usages[3]["cache_read_input_tokens"], prompt - 64)
        for usage in (usages[1], usages[4]):
            self.assertEqual(usage["input_tokens"], prompt)
            self.assertGreater(usage["input_tokens_details"]["cached_tokens"], prompt - 64)
        for usage in (usages[2], usages[5]):
            self.assertGreater(usage["prompt_tokens_details"]["cached_tokens"], prompt - 64)

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


class Agents(server.Case):
    """Agents ask with prompts of ten thousand tokens and more, several at a time: by default all of them are kept."""
    options = ["--context", 16384]

    def test_two_long_conversations_in_turn(self):
        chats = [turns(self.server, 2, f"Agent {number} has tools. " + "Words have meanings, and meanings have words. " * 1200)
                 for number in range(2)]
        held = [0, 0]
        for turn in range(2):
            for number, chat_ in enumerate(chats):
                prompt, cached, _, _ = next(chat_)
                self.assertGreater(prompt, 11000)
                if turn > 0:
                    self.assertGreater(cached, held[number] - 64, (turn, number))
                held[number] = prompt


class Restart(braid.Case):
    def test_what_is_kept_in_a_folder(self):
        folder = self.folder / "cache"
        folder.mkdir()
        with server.running("--cache-dir", folder) as running:
            _, cached, _, text = next(turns(running, 1))
            self.assertEqual(cached, 0)
            self.assertEqual(running.stop(), 0)
        with server.running("--cache-dir", folder) as running:
            prompt, cached, _, again = next(turns(running, 1))
            self.assertGreater(cached, prompt - 64)
            self.assertEqual(again, text)

    def test_no_cache(self):
        with server.running("--cache-mb", 0) as running:
            self.assertEqual([cached for _, cached, _, _ in turns(running, 3)], [0, 0, 0])


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
