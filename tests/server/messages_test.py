# POST /v1/messages and its count of tokens: what the clients' own types do not show, and what is refused.
# SPDX-License-Identifier: Apache-2.0
import json
import unittest

import server
from server import MODEL, braid

PATH = "/v1/messages"
TOOL = {"name": "get_weather", "description": "Current weather in a city",
        "input_schema": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}}


def ask(content, **fields):
    return {"model": MODEL, "max_tokens": 100, "temperature": 0, "messages": [{"role": "user", "content": content}], **fields}


class Messages(server.Case):
    options = ["--api-key", "secret"]
    key = {"x-api-key": "secret", "anthropic-version": "2023-06-01"}

    def post(self, path, body, headers=None):
        return self.server.post(path, body, headers=headers or self.key)

    def refused(self, body, status, kind):
        got, headers, answer = self.post(PATH, body)
        self.assertEqual((got, answer["type"], answer["error"]["type"]), (status, "error", kind), answer)
        self.assertTrue(headers["request-id"])
        return answer["error"]["message"]

    def test_events(self):
        events = list(self.server.events(PATH, ask("What is the weather in Paris?", tools=[TOOL], stream=True), headers=self.key))
        data = [json.loads(text) for _, text in events]
        self.assertEqual([name for name, _ in events], [event["type"] for event in data])
        self.assertEqual([event["type"] for event in data[:3]], ["message_start", "ping", "content_block_start"])
        self.assertEqual(data[2]["content_block"]["input"], {})
        self.assertEqual([event["type"] for event in data[-3:]], ["content_block_stop", "message_delta", "message_stop"])
        self.assertEqual(data[-2]["delta"], {"stop_reason": "tool_use", "stop_sequence": None})
        self.assertEqual({event["index"] for event in data if "index" in event}, {0})

    def test_turns_of_one_role_are_one_message(self):
        def count(messages, **more):
            got, _, answer = self.post(PATH + "/count_tokens", {"model": MODEL, "messages": messages, **more})
            self.assertEqual(got, 200, answer)
            return answer["input_tokens"]
        one = count([{"role": "user", "content": "a\nb"}])
        self.assertEqual(count([{"role": "user", "content": "a"}, {"role": "user", "content": "b"}]), one)
        self.assertEqual(count([{"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}]), one)
        self.assertEqual(count([{"role": "user", "content": "hi"}], system="s"),
                         count([{"role": "user", "content": "hi"}], system=[{"type": "text", "text": "s"}]))

    def test_an_empty_beginning_of_the_answer(self):
        asked = {"role": "user", "content": "Spell banana."}
        want = self.post(PATH, ask("Spell banana."))[2]["content"]
        for content in ("", " \n", [{"type": "text", "text": ""}], []):
            got, _, answer = self.post(PATH, ask("", messages=[asked, {"role": "assistant", "content": content}]))
            self.assertEqual((got, answer.get("content")), (200, want), answer)

    def test_tools_that_are_not_to_be_called(self):
        got, _, answer = self.post(PATH, ask("What is the weather in Paris?", tools=[TOOL], tool_choice={"type": "none"}))
        self.assertEqual((got, [block["type"] for block in answer["content"]]), (200, ["text"]), answer)

    def test_what_is_refused(self):
        for body, field in [(ask("x", max_tokens=0), "max_tokens"), (ask("x", max_tokens=None), "max_tokens"),
                            (ask("x", messages=[]), "messages"), (ask(5), "messages[0].content"),
                            (ask([{"type": "image"}]), "messages[0].content[0].type"),
                            (ask([{"type": "tool_use", "id": "a", "name": "b", "input": {}}]), "messages[0].content[0].type"),
                            (ask("x", tools=[{"type": "bash_20250124", "name": "bash"}]), "tools[0].type"),
                            (ask("x", tools=[{"name": "f"}]), "tools[0].input_schema"),
                            (ask("x", tool_choice={"type": "any"}), "tool_choice.type"),
                            (ask("x", thinking={"type": "maybe"}), "thinking.type"),
                            (ask("x", thinking={"type": "enabled", "budget_tokens": "9"}), "thinking.budget_tokens"),
                            (ask("x", system=[{"type": "image"}]), "system[0].type"), (ask("x", stream="yes"), "stream"),
                            (ask("x", metadata=5), "metadata")]:
            self.assertIn(field, self.refused(body, 400, "invalid_request_error"))
        self.refused(ask("x", model="other"), 404, "not_found_error")
        got, _, answer = self.post(PATH, ask("x"), headers={"x-api-key": "wrong"})
        self.assertEqual((got, answer["error"]["type"]), (401, "authentication_error"))
        got, _, answer = self.server.ask("GET", PATH, headers=self.key)
        self.assertEqual((got, answer["type"]), (405, "error"))


if __name__ == "__main__":
    braid.main()
