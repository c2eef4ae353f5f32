# POST /v1/completions, /tokenize, /detokenize and the lists of models.
# SPDX-License-Identifier: Apache-2.0
import math
import unittest

import server
from server import MODEL, braid, chunks

PATH = "/v1/completions"
PROMPT = '<|im_start|>user\nWhat does "river" mean?<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n'


def body(prompt, **fields):
    return {"model": MODEL, "prompt": prompt, "temperature": 0, **fields}


class Completions(server.Case):
    def ask(self, given, status=200):
        got, _, answer = self.server.post(PATH, given)
        self.assertEqual(got, status, answer)
        return answer

    def tokens(self, text):
        return self.server.post("/tokenize", {"prompt": text})[2]["tokens"]

    def test_texts_and_ids(self):
        one = self.ask(body(PROMPT))["choices"][0]
        self.assertTrue(one["text"].startswith("river (noun): a large natural"), one)
        self.assertEqual(one["finish_reason"], "length")  # the API's own default is 16 tokens
        ids = self.tokens(PROMPT)
        other = PROMPT.replace("river", "guitar")
        self.assertEqual(self.ask(body(ids))["choices"][0]["text"], one["text"])
        both = self.ask(body([PROMPT, other], n=2))
        self.assertEqual([c["index"] for c in both["choices"]], [0, 1, 2, 3])
        self.assertEqual([c["text"][:5] for c in both["choices"]], ["river", "river", "guita", "guita"])
        self.assertEqual(both["usage"]["prompt_tokens"], len(ids) + len(self.tokens(other)))
        again = self.ask(body([ids, self.tokens(other)]))
        self.assertEqual([c["text"] for c in again["choices"]], [both["choices"][0]["text"], both["choices"][2]["text"]])

    def test_streams(self):
        whole = self.ask(body(PROMPT, max_tokens=30, n=2))
        got = chunks(self.server.events(PATH, body(PROMPT, max_tokens=30, n=2, stream=True,
                                                   stream_options={"include_usage": True})))
        for choice in whole["choices"]:
            mine = [c for chunk in got for c in chunk["choices"] if c["index"] == choice["index"]]
            self.assertEqual("".join(c["text"] for c in mine), choice["text"])
            self.assertEqual(mine[-1]["finish_reason"], choice["finish_reason"])
        self.assertEqual(got[-1]["usage"]["completion_tokens"], whole["usage"]["completion_tokens"])

    def test_echo_and_scores(self):
        got = self.ask(body(PROMPT, echo=True, logprobs=2, max_tokens=5))["choices"][0]
        self.assertTrue(got["text"].startswith(PROMPT + "river"))
        scores = got["logprobs"]
        count = len(self.tokens(PROMPT)) + 5
        self.assertEqual([len(scores[name]) for name in scores], [count] * 4)
        self.assertIsNone(scores["token_logprobs"][0])
        self.assertEqual("".join(scores["tokens"]), got["text"])
        self.assertEqual([got["text"][a:b] for a, b in zip(scores["text_offset"], scores["text_offset"][1:])],
                         scores["tokens"][:-1])
        for token, logprob, top in list(zip(scores["tokens"], scores["token_logprobs"], scores["top_logprobs"]))[1:]:
            self.assertEqual(top[token], logprob)
        # What the answer's tokens were drawn with is what the same tokens have as a prompt.
        again = self.ask(body(self.tokens(PROMPT) + self.tokens(got["text"][len(PROMPT):]), echo=True, logprobs=0,
                              max_tokens=0))["choices"][0]["logprobs"]
        for mine, theirs in zip(scores["token_logprobs"][1:], again["token_logprobs"][1:]):
            self.assertLess(abs(mine - theirs), 0.02)  # the bf16 operands of the fast path, in other batches
        streamed = chunks(self.server.events(PATH, body(PROMPT, echo=True, logprobs=2, max_tokens=5, stream=True)))
        parts = [c for chunk in streamed for c in chunk["choices"]]
        self.assertEqual("".join(c["text"] for c in parts), got["text"])
        self.assertEqual([t for c in parts if c["logprobs"] for t in c["logprobs"]["tokens"]], scores["tokens"])
        self.assertFalse(any(math.isinf(value) for value in scores["token_logprobs"][1:]))

    def test_what_is_refused(self):
        for fields, param in [({"prompt": None}, "prompt"), ({"prompt": ""}, "prompt"), ({"prompt": []}, "prompt"),
                              ({"prompt": {}}, "prompt"), ({"prompt": [[]]}, "prompt"), ({"prompt": [-1]}, "prompt"),
                              ({"suffix": "x"}, "suffix"), ({"best_of": 3}, "best_of"), ({"max_tokens": 0}, "max_tokens"),
                              ({"logprobs": True}, "logprobs"), ({"logprobs": 99}, "logprobs"), ({"echo": 1}, "echo"),
                              ({"prompt": [99999999]}, "prompt"), ({"stop_token_ids": [99999999]}, "stop_token_ids"),
                              ({"stop_token_ids": [1.5]}, "stop_token_ids"), ({"logit_bias": {"5": 1e300}}, "logit_bias"),
                              ({"guided_json": "{"}, "guided_json"),
                              ({"structured_outputs": {"json": "{"}}, "structured_outputs.json")]:
            error = self.ask({**body(PROMPT), **fields}, 400)["error"]
            self.assertEqual(error["param"], param, error)
        self.assertIn("vocabulary", self.ask(body([99999999]), 400)["error"]["message"])

    def test_tokens_there_and_back(self):
        text = "A river, the Å — and 数.\n<|im_end|>"
        got = self.server.post("/tokenize", {"prompt": text, "return_token_strs": True})[2]
        self.assertEqual((got["count"], got["max_model_len"]), (len(got["tokens"]), 8192))
        self.assertEqual(len(got["token_strs"]), got["count"])
        self.assertEqual(self.server.post("/detokenize", {"tokens": got["tokens"]})[2]["prompt"], text)
        shown = self.server.post("/detokenize", {"tokens": got["tokens"], "skip_special_tokens": True})[2]["prompt"]
        self.assertEqual(shown, text.removesuffix("<|im_end|>"))
        golden = braid.read_json(braid.GOLDENS / "pocket-fp8" / "chats.json")[0]
        got = self.server.post("/tokenize", {"messages": golden["messages"],
                                             "chat_template_kwargs": {"enable_thinking": False}})[2]
        self.assertEqual(got["tokens"], golden["ids"])
        self.assertEqual(self.server.post("/tokenize", {})[0], 400)
        self.assertEqual(self.server.post("/detokenize", {"tokens": "x"})[0], 400)

    def test_models(self):
        listed = self.server.ask("GET", "/v1/models")[2]
        self.assertEqual([model["id"] for model in listed["data"]], [MODEL])
        self.assertEqual(self.server.ask("GET", f"/v1/models/{MODEL}")[2], listed["data"][0])
        self.assertEqual(self.server.ask("GET", "/v1/models/other")[0], 404)


if __name__ == "__main__":
    braid.main()
