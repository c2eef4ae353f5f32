# Answers that are held to a form: schemas, patterns, choices, grammars, calls, and a budget for thoughts.
# SPDX-License-Identifier: Apache-2.0
import json
import re
import unittest

import server
from server import MODEL, braid, chat, chunks

PATH = "/v1/chat/completions"
ENTRY = {"type": "object", "properties": {"word": {"type": "string", "maxLength": 20},
                                          "pos": {"enum": ["noun", "verb", "adjective"]},
                                          "uses": {"type": "array", "items": {"type": "integer", "minimum": 0, "maximum": 9},
                                                   "minItems": 1, "maxItems": 3}},
         "required": ["word", "pos", "uses"], "additionalProperties": False}
WEATHER = {"type": "function", "function": {
    "name": "get_weather", "description": "Current weather in a city",
    "parameters": {"type": "object", "properties": {"city": {"type": "string", "maxLength": 12}}, "required": ["city"],
                   "additionalProperties": False}}}
TIMER = {"type": "function", "function": {
    "name": "set_timer", "parameters": {"type": "object", "properties": {"minutes": {"type": "integer", "minimum": 1,
                                                                                     "maximum": 60}},
                                        "required": ["minutes"], "additionalProperties": False}}}


def schema_format(schema):
    return {"type": "json_schema", "json_schema": {"name": "entry", "schema": schema, "strict": True}}


class Structured(server.Case):
    def ask(self, body, status=200):
        got, _, answer = self.server.post(PATH, body)
        self.assertEqual(got, status, answer)
        return answer

    def message(self, body):
        choice = self.ask(body)["choices"][0]
        return choice["message"], choice["finish_reason"]

    def streamed(self, body, field="content"):
        got = chunks(self.server.events(PATH, {**body, "stream": True}))
        return "".join(c["delta"].get(field) or "" for chunk in got for c in chunk["choices"])

    def check_entry(self, text):
        entry = json.loads(text)
        self.assertEqual(list(entry), ["word", "pos", "uses"], text)
        self.assertLessEqual(len(entry["word"]), 20)
        self.assertIn(entry["pos"], ENTRY["properties"]["pos"]["enum"])
        self.assertTrue(1 <= len(entry["uses"]) <= 3 and all(0 <= use <= 9 for use in entry["uses"]), text)

    def test_schemas_with_and_without_thoughts(self):
        for thinking in (False, True):
            body = chat("Give the entry for guitar as JSON.", response_format=schema_format(ENTRY), max_tokens=300,
                        chat_template_kwargs={"enable_thinking": thinking})
            message, reason = self.message(body)
            self.assertEqual(reason, "stop")
            self.check_entry(message["content"])
            self.assertEqual(self.streamed(body), message["content"])
            self.check_entry(self.message({**body, "temperature": 1.5, "seed": 3})[0]["content"])
        body = chat("What is 27 + 15?", response_format=schema_format(
            {"type": "object", "properties": {"sum": {"type": "integer"}}, "required": ["sum"], "additionalProperties": False}),
            chat_template_kwargs={})
        message, _ = self.message(body)
        self.assertIn("7 + 5", message["reasoning_content"])  # thoughts are free
        self.assertEqual(list(json.loads(message["content"])), ["sum"])

    def test_any_object(self):
        message, _ = self.message(chat("Give the entry for guitar as JSON.", response_format={"type": "json_object"},
                                       max_tokens=300))
        self.assertEqual(json.loads(message["content"])["word"], "guitar")

    def test_the_other_forms_and_their_older_names(self):
        forms = [("regex", r"[A-Z]{3}-\d\d", r"[A-Z]{3}-\d\d"), ("choice", ["yes", "no", "perhaps"], "yes|no|perhaps"),
                 ("grammar", 'root ::= "n" ("o" | "e") "!"', "n[oe]!")]
        for name, value, pattern in forms:
            for fields in ({"structured_outputs": {name: value}}, {f"guided_{name}": value}):
                message, reason = self.message(chat("Who are you?", **fields))
                self.assertRegex(message["content"], f"^({pattern})$")
                self.assertEqual(reason, "stop")
        for fields in ({"structured_outputs": {"json": ENTRY}}, {"guided_json": ENTRY}, {"guided_json": json.dumps(ENTRY)}):
            self.check_entry(self.message(chat("Give the entry for guitar as JSON.", **fields))[0]["content"])
        got = self.server.post("/v1/completions", {"model": MODEL, "prompt": "A river", "guided_regex": "x{5}"})[2]
        self.assertEqual(got["choices"][0]["text"], "xxxxx")

    def test_calls_that_must_be(self):
        for choice, names in (("required", {"get_weather", "set_timer"}), ({"type": "function", "function": {"name": "set_timer"}},
                                                                           {"set_timer"})):
            for thinking in (False, True):
                body = chat("Who are you?", tools=[WEATHER, TIMER], tool_choice=choice, parallel_tool_calls=False,
                            max_tokens=200, chat_template_kwargs={"enable_thinking": thinking})
                message, reason = self.message(body)
                self.assertEqual(reason, "tool_calls")
                call, = message["tool_calls"]
                self.assertIn(call["function"]["name"], names)
                arguments = json.loads(call["function"]["arguments"])
                if call["function"]["name"] == "set_timer":
                    self.assertTrue(1 <= arguments["minutes"] <= 60)
                else:
                    self.assertLessEqual(len(arguments["city"]), 12)

    def test_calls_that_may_be(self):
        strict = json.loads(json.dumps(WEATHER))
        strict["function"]["strict"] = True
        message, _ = self.message(chat("What is the weather in Paris?", tools=[strict]))
        self.assertEqual(json.loads(message["tool_calls"][0]["function"]["arguments"]), {"city": "Paris"})
        message, reason = self.message(chat("Who are you?", tools=[strict]))
        self.assertEqual((reason, message["content"][:4]), ("stop", "I am"))

    def test_marks_within_a_form_are_text(self):
        for text in ("say <think> aloud", "</think> is said", "<tool_call>{}</tool_call>"):
            for tools in (None, [TIMER]):
                message, _ = self.message(chat("Who are you?", tools=tools, structured_outputs={"choice": [text]}))
                self.assertEqual((message["content"], message.get("reasoning_content")), (text, None))

    def test_a_budget_for_thoughts(self):
        whole = self.ask(chat("What is 27 + 15?", chat_template_kwargs={}))["usage"]["completion_tokens_details"]
        for budget in (0, 5):
            got = self.ask(chat("What is 27 + 15?", chat_template_kwargs={}, thinking_budget=budget, max_tokens=60))
            tokens = got["usage"]["completion_tokens_details"]["reasoning_tokens"]
            self.assertLess(tokens, whole["reasoning_tokens"])
            self.assertLessEqual(tokens, budget + 3)  # the mark itself counts where it is several tokens
            self.assertNotIn("think", got["choices"][0]["message"]["content"])

    def test_what_is_refused(self):
        cases = [({"response_format": schema_format({"type": "objekt"})}, "response_format.json_schema.schema"),
                 ({"response_format": schema_format({"type": "object", "unevaluatedProperties": False})},
                  "response_format.json_schema.schema"),
                 ({"guided_regex": "(?=x)"}, "guided_regex"), ({"guided_grammar": "root ::= ("}, "guided_grammar"),
                 ({"guided_choice": []}, "guided_choice"), ({"structured_outputs": {"regex": "["}}, "structured_outputs.regex"),
                 ({"structured_outputs": {"regex": "a", "choice": ["b"]}}, None)]
        for fields, param in cases:
            error = self.ask(chat("Who are you?", **fields), 400)["error"]
            if param:
                self.assertEqual(error["param"], param, error)
            self.assertTrue(re.search(r"\w", error["message"]))
        self.assertEqual(self.message(chat("Spell banana."))[0]["content"], "B-A-N-A-N-A.")


if __name__ == "__main__":
    braid.main()
