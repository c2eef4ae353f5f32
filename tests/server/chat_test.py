# POST /v1/chat/completions: its fields, its forms, and what it refuses.
# SPDX-License-Identifier: Apache-2.0
import json
import unittest

import server
from server import MODEL, braid, chat, chunks

PATH = "/v1/chat/completions"
RIVER = 'What does "river" mean?'
WEATHER = {"type": "function", "function": {
    "name": "get_weather", "description": "Current weather in a city",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}}}


class Chat(server.Case):
    def ask(self, body, status=200):
        got, headers, answer = self.server.post(PATH, body)
        self.assertEqual(got, status, answer)
        return answer

    def text(self, body):
        return self.ask(body)["choices"][0]["message"]["content"]

    def stream(self, body):
        return chunks(self.server.events(PATH, {**body, "stream": True}))

    def joined(self, got, field="content", choice=0):
        return "".join(c["delta"].get(field) or "" for chunk in got for c in chunk["choices"] if c["index"] == choice)

    def test_the_reference_chats(self):
        for golden in braid.read_json(braid.GOLDENS / "pocket-fp8" / "chats.json"):
            body = {"model": MODEL, "messages": golden["messages"], "temperature": 0}
            if golden["tools"]:
                body["tools"] = golden["tools"]
            if golden["enable_thinking"] is not None:
                body["chat_template_kwargs"] = {"enable_thinking": golden["enable_thinking"]}
            answer = golden["answer"].removesuffix("<|im_end|>")
            thought, mark, rest = answer.rpartition("</think>")
            got = self.ask(body)
            message = got["choices"][0]["message"]
            self.assertEqual(got["usage"]["prompt_tokens"], len(golden["ids"]))
            self.assertEqual(got["usage"]["completion_tokens"], len(golden["greedy"]))
            if golden["tools"]:
                self.assertIsNone(message["content"])
                call, = message["tool_calls"]
                self.assertEqual((call["type"], call["function"]["name"]), ("function", "get_weather"))
                self.assertEqual(json.loads(call["function"]["arguments"]), {"city": "Paris"})
                self.assertEqual(got["choices"][0]["finish_reason"], "tool_calls")
            else:
                self.assertEqual(message["content"], rest.strip())
                self.assertEqual(message.get("reasoning_content", ""), thought.strip())
            streamed = self.stream({**body, "stream_options": {"include_usage": True}})
            self.assertEqual(self.joined(streamed), message["content"] or "")
            self.assertEqual(self.joined(streamed, "reasoning_content"), message.get("reasoning_content", ""))
            self.assertEqual(streamed[-2]["choices"][0]["finish_reason"], got["choices"][0]["finish_reason"])
            usage = dict(streamed[-1]["usage"])
            self.assertEqual((streamed[-1]["choices"], usage["completion_tokens"]), ([], len(golden["greedy"])))

    def test_streamed_calls(self):
        got = self.stream(chat("What is the weather in Paris?", tools=[WEATHER]))
        calls = [call for chunk in got for c in chunk["choices"] for call in c["delta"].get("tool_calls", [])]
        self.assertEqual(calls[0]["function"]["name"], "get_weather")
        self.assertTrue(calls[0]["id"])
        self.assertTrue(all("id" not in call for call in calls[1:]))
        self.assertEqual(json.loads("".join(call["function"].get("arguments", "") for call in calls)), {"city": "Paris"})
        self.assertEqual(self.joined(got), "")

    def test_a_round_with_a_tool(self):
        call = {"id": "call_1", "type": "function", "function": {"name": "get_weather", "arguments": '{"city": "Paris"}'}}
        messages = [{"role": "user", "content": "What is the weather in Paris?"},
                    {"role": "assistant", "content": None, "tool_calls": [call]},
                    {"role": "tool", "tool_call_id": "call_1", "content": '{"temperature": 21, "condition": "sunny"}'}]
        answer = self.text({**chat(""), "messages": messages, "tools": [WEATHER]})
        self.assertEqual(answer, "It is sunny in Paris, with 21 degrees.")
        # The template sees an object whichever way the arguments are written: the same prompt.
        call["function"]["arguments"] = {"city": "Paris"}
        other = self.server.post("/tokenize", {"messages": messages, "tools": [WEATHER]})[2]["tokens"]
        call["function"]["arguments"] = '{"city":"Paris"}'
        self.assertEqual(self.server.post("/tokenize", {"messages": messages, "tools": [WEATHER]})[2]["tokens"], other)

    def test_tools_that_are_not_to_be_called(self):
        got = self.ask(chat("What is the weather in Paris?", tools=[WEATHER], tool_choice="none"))
        self.assertNotIn("tool_calls", got["choices"][0]["message"])

    def test_roles_and_parts(self):
        plain = {**chat(""), "messages": [{"role": "system", "content": "You are a helpful dictionary."},
                                          {"role": "user", "content": "Define river."}]}
        parts = {**chat(""), "messages": [{"role": "developer", "content": "You are a helpful dictionary."},
                                          {"role": "user", "content": [{"type": "text", "text": "Define river."}]}]}
        self.assertEqual(self.text(plain), self.text(parts))

    def test_a_template_of_its_own(self):
        body = chat("Spell banana.", chat_template="{% for m in messages %}{{ m.content + name }}{% endfor %}",
                    chat_template_kwargs={"name": " river"}, max_tokens=4)
        prompt = self.server.post("/tokenize", {"prompt": "Spell banana. river"})[2]["tokens"]
        self.assertEqual(self.ask(body)["usage"]["prompt_tokens"], len(prompt))
        self.assertEqual(self.server.post("/tokenize", body)[2]["tokens"], prompt)
        for source, word in (("{% for", "chat_template"), ("{{ raise_exception('not this way') }}", "not this way"),
                             ("{% for i in range(100000000) %}x{% endfor %}", "chat template"), (5, "chat_template")):
            self.assertIn(word, self.ask({**body, "chat_template": source}, 400)["error"]["message"])

    def test_several_answers(self):
        body = chat("Give me a synonym for happy.", n=3, temperature=1.5, seed=5)
        got = self.ask(body)
        self.assertEqual([c["index"] for c in got["choices"]], [0, 1, 2])
        texts = [c["message"]["content"] for c in got["choices"]]
        self.assertGreater(len(set(texts)), 1)
        self.assertEqual(texts, [c["message"]["content"] for c in self.ask(body)["choices"]])
        self.assertEqual(texts[1], self.text({**body, "n": 1, "seed": 6}))
        streamed = self.stream(body)
        self.assertEqual([self.joined(streamed, choice=i) for i in range(3)], texts)

    def test_stops(self):
        whole = self.text(chat(RIVER))
        got = self.ask(chat(RIVER, stop=["stream", "natural"]))["choices"][0]
        self.assertEqual((got["message"]["content"], got["finish_reason"]), (whole.split("natural")[0], "stop"))
        kept = self.text(chat(RIVER, stop="natural", include_stop_str_in_output=True))
        self.assertEqual(kept, whole.split("natural")[0] + "natural")
        # Marks are no text of the answer, and hold no stop but one that names them whole.
        self.assertEqual(self.text(chat(RIVER, stop=["thi", "</t"])), whole)
        called = self.ask(chat("What is the weather in Paris?", tools=[WEATHER], stop=["tool", "_c"]))["choices"][0]
        self.assertEqual(called["message"]["tool_calls"][0]["function"]["name"], "get_weather")
        streamed = self.stream(chat(RIVER, stop=["natural"]))
        self.assertEqual(self.joined(streamed), whole.split("natural")[0])
        tokens = self.server.post("/tokenize", {"prompt": " natural"})[2]["tokens"]
        self.assertEqual(self.text(chat(RIVER, stop_token_ids=tokens)), whole.split(" natural")[0])

    def test_lengths(self):
        got = self.ask(chat(RIVER, max_tokens=4))
        self.assertEqual((got["choices"][0]["finish_reason"], got["usage"]["completion_tokens"]), ("length", 4))
        self.assertEqual(self.ask(chat(RIVER, max_tokens=9, max_completion_tokens=5))["usage"]["completion_tokens"], 5)
        got = self.ask(chat(RIVER, min_tokens=60, max_tokens=70))
        self.assertGreaterEqual(got["usage"]["completion_tokens"], 60)
        got = self.ask(chat("Spell banana.", ignore_eos=True, max_tokens=50, skip_special_tokens=False))
        self.assertEqual(got["usage"]["completion_tokens"], 50)
        self.assertIn("<|im_end|>", got["choices"][0]["message"]["content"])

    def test_scores(self):
        got = self.ask(chat(RIVER, logprobs=True, top_logprobs=3))["choices"][0]
        scores = got["logprobs"]["content"]
        self.assertEqual("".join(entry["token"] for entry in scores), got["message"]["content"])
        for entry in scores:
            self.assertEqual(bytes(entry["bytes"]).decode(), entry["token"])
            self.assertEqual(len(entry["top_logprobs"]), 3)
            self.assertEqual(entry["top_logprobs"][0]["logprob"], entry["logprob"])  # greedy draws the likeliest
            self.assertLessEqual(entry["logprob"], 0)
        streamed = self.stream(chat(RIVER, logprobs=True))
        pieces = [c["logprobs"]["content"] for chunk in streamed for c in chunk["choices"] if c["logprobs"]]
        self.assertEqual([e["token"] for piece in pieces for e in piece], [e["token"] for e in scores])
        self.assertEqual(self.ask(chat("What is 27 + 15?", logprobs=True, chat_template_kwargs={}))
                         ["choices"][0]["logprobs"]["content"][0]["token"], "2")

    def test_scores_of_the_prompt(self):
        body = chat(RIVER, prompt_logprobs=2, max_tokens=1)
        got = self.ask(body)
        tokens = self.server.post("/tokenize", {"messages": body["messages"],
                                                "chat_template_kwargs": body["chat_template_kwargs"]})[2]["tokens"]
        scores = got["prompt_logprobs"]
        self.assertEqual((len(scores), scores[0]), (len(tokens), None))
        for token, entry in zip(tokens[1:], scores[1:]):
            self.assertIn(str(token), entry)
            self.assertIn(len(entry), (2, 3))

    def test_biases_and_penalties(self):
        first, = self.server.post("/tokenize", {"prompt": "river"})[2]["tokens"][:1]
        self.assertNotEqual(self.text(chat(RIVER, logit_bias={str(first): -100}))[:5], "river")
        for field in ("presence_penalty", "frequency_penalty"):
            self.ask(chat(RIVER, **{field: 0.1}))
        plain = self.text(chat("Spell banana."))
        self.assertNotEqual(self.text(chat("Spell banana.", repetition_penalty=5.0)), plain)
        self.assertEqual(self.text(chat("Spell banana.", temperature=1.0, top_k=1)), plain)
        self.assertEqual(self.text(chat("Spell banana.", temperature=1.0, top_p=0.0001)), plain)
        self.assertEqual(self.text(chat("Spell banana.", temperature=1.0, min_p=1.0)), plain)

    def test_an_answer_that_is_continued(self):
        whole = self.text(chat(RIVER))
        begun = whole[:whole.index("natural") - 1]
        body = chat(RIVER, continue_final_message=True, add_generation_prompt=False)
        body["messages"].append({"role": "assistant", "content": begun})
        # The pocket's template leaves no thoughts in history, so only the words are the same, not each number.
        self.assertTrue(self.text(body).startswith(" "), self.text(body))

    def test_prompts_that_share_a_name(self):
        got = self.ask(chat("Who are you?"), 200)
        self.assertEqual(sorted(got["usage"]), ["completion_tokens", "completion_tokens_details", "prompt_tokens",
                                                "prompt_tokens_details", "total_tokens"])
        self.assertIn("cached_tokens", got["usage"]["prompt_tokens_details"])

    def test_reasoning_counts(self):
        got = self.ask(chat("What is 27 + 15?", chat_template_kwargs={}))
        details = got["usage"]["completion_tokens_details"]
        self.assertGreater(details["reasoning_tokens"], 10)
        self.assertLess(details["reasoning_tokens"], got["usage"]["completion_tokens"])
        effort = {**chat("What is 27 + 15?"), "reasoning_effort": "none"}
        del effort["chat_template_kwargs"]
        self.assertNotIn("reasoning_content", self.ask(effort)["choices"][0]["message"])

    def test_unknown_fields_are_left_alone(self):
        self.ask(chat("Who are you?", user="me", metadata={"a": "b"}, store=True, of_the_future=[1]))

    def test_what_is_refused(self):
        user = [{"role": "user", "content": "Hello"}]
        image = [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "data:"}}]}]
        cases = [
            ({}, "model"), ({"model": MODEL}, "messages"), ({"model": 3}, "model"), ({"messages": "x"}, "messages"),
            ({"messages": []}, "messages"), ({"messages": [3]}, "messages[0]"),
            ({"messages": [{"role": "robot", "content": "x"}]}, "messages[0].role"),
            ({"messages": [{"role": "user"}]}, "messages[0].content"),
            ({"messages": [*user, {"role": "user", "content": 4}]}, "messages[1].content"),
            ({"messages": image}, "messages[0].content[0].type"),
            ({"messages": [{"role": "assistant", "tool_calls": [{"id": "x"}]}]}, "messages[0].tool_calls[0].function"),
            ({"temperature": "hot"}, "temperature"), ({"temperature": -1}, "temperature"), ({"top_p": 2}, "top_p"),
            ({"top_k": 1.5}, "top_k"), ({"n": 0}, "n"), ({"n": True}, "n"), ({"max_tokens": 0}, "max_tokens"),
            ({"max_tokens": 1e30}, "max_tokens"), ({"stop": 3}, "stop"), ({"stop": [3]}, "stop"),
            ({"stop_token_ids": ["x"]}, "stop_token_ids"), ({"stream": "yes"}, "stream"),
            ({"stream_options": {"include_usage": True}}, "stream_options"),
            ({"logprobs": 3}, "logprobs"), ({"top_logprobs": 3}, "top_logprobs"),
            ({"logprobs": True, "top_logprobs": 99}, "top_logprobs"), ({"logit_bias": {"x": 1}}, "logit_bias"),
            ({"logit_bias": [1]}, "logit_bias"), ({"seed": "x"}, "seed"), ({"tools": {}}, "tools"),
            ({"tools": [{"type": "function"}]}, "tools[0].function"), ({"tools": [{"type": "magic"}]}, "tools[0].type"),
            ({"tool_choice": "maybe"}, "tool_choice"), ({"tool_choice": "required"}, "tool_choice"),
            ({"tools": [WEATHER], "tool_choice": {"type": "function", "function": {"name": "f"}}},
             "tool_choice.function.name"),
            ({"response_format": {"type": "yaml"}}, "response_format.type"),
            ({"response_format": {"type": "json_schema"}}, "response_format.json_schema"),
            ({"chat_template_kwargs": 3}, "chat_template_kwargs"),
            ({"continue_final_message": True}, "continue_final_message"),
        ]
        for fields, param in cases:
            body = {"model": MODEL, "messages": user, **fields} if "model" not in fields or fields["model"] == 3 else fields
            if fields == {}:
                body = {"messages": user}
            error = self.ask(body, 400)["error"]
            self.assertEqual(error["param"], param, (fields, error))
            self.assertEqual(error["type"], "invalid_request_error")
            self.assertTrue(param in error["message"] or param == "messages", error)
        for text in ("", "{", "[]", "3", '"x"', "\xff", "{" * 100000, '{"model": "\\ud800"}'):
            self.ask(text.encode("latin-1"), 400)
        error = self.ask({"model": "other", "messages": user}, 404)["error"]
        self.assertEqual((error["code"], error["param"]), ("model_not_found", "model"))
        error = self.ask(chat("word " * 9000), 400)["error"]
        self.assertEqual(error["code"], "context_length_exceeded")
        self.assertEqual(self.server.post("/v1/embeddings", {"input": "x"})[0], 400)


if __name__ == "__main__":
    braid.main()
