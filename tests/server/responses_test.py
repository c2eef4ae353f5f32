# /v1/responses: what is kept, what is refused, and that streams say at their end what whole answers say.
# SPDX-License-Identifier: Apache-2.0
import json
import unittest

import server
from server import MODEL, braid

PATH = "/v1/responses"


def ask(given, **fields):
    return {"model": MODEL, "input": given, "temperature": 0, "reasoning": {"effort": "none"}, **fields}


class Responses(server.Case):
    def post(self, body, status=200):
        got, _, answer = self.server.post(PATH, body)
        self.assertEqual(got, status, answer)
        return answer

    def get(self, path, status=200, method="GET"):
        got, _, answer = self.server.ask(method, f"{PATH}/{path}")
        self.assertEqual(got, status, answer)
        return answer

    def test_streams_end_with_the_whole_response(self):
        whole = self.post(ask("Spell banana."))
        events = [json.loads(data) for _, data in self.server.events(PATH, ask("Spell banana.", stream=True))]
        self.assertEqual([event["sequence_number"] for event in events], list(range(len(events))))
        last = events[-1]["response"]
        self.assertEqual(list(last), list(whole))
        self.assertEqual(last["output"][0]["content"], whole["output"][0]["content"])
        self.assertEqual(self.get(last["id"])["output"], last["output"])

    def test_a_conversation_is_kept_without_its_instructions(self):
        first = self.post(ask("What is the opposite of hot?", instructions="Speak like a pirate."))
        second = self.post(ask("Use cold in a sentence.", previous_response_id=first["id"]))
        third = self.post(ask("Spell banana.", previous_response_id=second["id"]))
        said = [response["output"][0]["content"][0]["text"] for response in (first, second)]
        whole = self.post(ask([{"role": "user", "content": "What is the opposite of hot?"},
                               {"role": "assistant", "content": said[0]},
                               {"role": "user", "content": "Use cold in a sentence."},
                               {"role": "assistant", "content": said[1]},
                               {"role": "user", "content": "Spell banana."}]))
        self.assertEqual(third["usage"]["input_tokens"], whole["usage"]["input_tokens"])
        self.assertEqual(self.get(first["id"], method="DELETE"), {"id": first["id"], "object": "response", "deleted": True})
        self.get(first["id"], 404)
        # What went on from it does not need it.
        self.post(ask("Spell banana.", previous_response_id=second["id"]))

    def test_what_is_refused(self):
        for fields, param in [({"input": None}, "input"), ({"input": 5}, "input"), ({"input": []}, "input"),
                              ({"input": [{"role": "robot", "content": "x"}]}, "input[0].role"),
                              ({"input": [{"type": "item_reference", "id": "x"}]}, "input[0].type"),
                              ({"max_output_tokens": 0}, "max_output_tokens"), ({"tool_choice": "must"}, "tool_choice"),
                              ({"tool_choice": "required"}, "tool_choice"), ({"conversation": "c"}, "conversation"),
                              ({"previous_response_id": "resp_x"}, "previous_response_id"), ({"store": 1}, "store"),
                              ({"metadata": "x"}, "metadata"), ({"user": [1]}, "user"),
                              ({"reasoning": "high"}, "reasoning"), ({"text": {"format": {"type": "x"}}}, "text.format.type")]:
            error = self.post({**ask("x"), **fields}, 400)["error"]
            self.assertEqual(error["param"], param, error)


if __name__ == "__main__":
    braid.main()
