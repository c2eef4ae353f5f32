# Answers to random JSON schemas, from the bundled model and from one with random weights, streamed and not, with thoughts
# and without: nearly all end by themselves, and what does is valid for ajv. `schemas_test.py --soak` takes 300 schemas.
# SPDX-License-Identifier: Apache-2.0
import concurrent.futures
import json
import random
import shutil
import struct
import subprocess
import sys

import clients_test
import server
from server import braid, chat, chunks

PATH = "/v1/chat/completions"
SCHEMAS = 24
NAMES = ["id", "name", "a", "ab", 'value "x"', "zeit", "größe", "list", "$k"]


class Schemas:
    """Draws schemas whose values have bounded lengths."""

    def __init__(self, seed):
        self.draw = random.Random(seed)

    def document(self):
        tree = {"type": "object", "properties": {"label": {"type": "string", "maxLength": 3},
                                                 "next": {"type": "array", "items": {"$ref": "#/$defs/tree"}, "maxItems": 1}},
                "required": ["label"], "additionalProperties": False}
        return {**self.object(0), "$defs": {"tree": tree}}

    def object(self, depth):
        chosen = self.draw.sample(NAMES, self.draw.randint(1, 5))
        return {"type": "object", "properties": {name: self.schema(depth + 1) for name in chosen},
                "required": [name for name in chosen if self.draw.random() < 0.6], "additionalProperties": False}

    def schema(self, depth):
        draw = self.draw
        kind = draw.randrange(15 if depth < 3 else 11)
        if kind == 0:
            return {"type": "integer", "minimum": draw.randint(-2000, 0), "maximum": draw.randint(0, 130)}
        if kind == 1:
            return {"type": "integer", "exclusiveMinimum": draw.randint(0, 9), "maximum": 10 ** draw.randint(1, 6)}
        if kind in (2, 3):
            least = draw.randint(0, 3)
            return {"type": "string", "minLength": least, "maxLength": least + draw.randint(0, 20)}
        if kind == 4:
            return {"enum": draw.sample(["red", 'gr"een', 3, None, True, [1, "x"], {"k": "v"}, "ü"], 3)}
        if kind == 5:
            return {"type": draw.choice(["boolean", "null", ["boolean", "null"]])}
        if kind == 6:
            return {"type": "string", "pattern": draw.choice(["^[A-Z]{2}-\\d{1,3}$", "^(yes|no|maybe)$", "^#[0-9a-f]{6}$"])}
        if kind == 7:
            return {"type": "string", "format": draw.choice(["date", "date-time", "uuid", "time"])}
        if kind == 8:
            return {"const": draw.choice([1.5, "as it is", False, None, {"a": [1]}])}
        if kind == 9:
            return {"anyOf": [self.schema(3), self.schema(3)]}
        if kind == 10:
            return {"$ref": "#/$defs/tree"}
        if kind in (11, 12):
            least = draw.randint(0, 2)
            return {"type": "array", "items": self.schema(depth + 1), "minItems": least, "maxItems": least + draw.randint(0, 3)}
        if kind == 13:
            return {"type": "array", "prefixItems": [self.schema(depth + 1), self.schema(depth + 1)], "items": False, "minItems": 2}
        return self.object(depth)


def random_weights(folder):
    """The same model with other weights: what was learned is gone, the sizes of what flows through it stay."""
    draw = random.Random(11)
    file = next(folder.glob("*.safetensors"))
    tensors, metadata = braid.read_safetensors(file)
    # Bytes of random signs and of exponents around 1, none of them NaN.
    coded = bytes((byte & 0x80) | 0x20 | (byte & 0x1F) for byte in range(256))
    halves = [struct.pack("<f", draw.gauss(0, 0.05))[2:] for _ in range(4096)]
    for name, (dtype, shape, data) in tensors.items():
        if dtype == "F8_E4M3":
            data = draw.randbytes(len(data)).translate(coded)
        elif dtype == "BF16" and len(shape) == 2:
            data = b"".join(draw.choices(halves, k=len(data) // 2))
        tensors[name] = (dtype, shape, data)
    braid.write_safetensors(file, tensors, metadata)
    return folder


class Random(braid.Case):
    def answer(self, running, index, schema):
        """(whether it ended by itself, text)"""
        think, stream = index % 2 == 1, index // 2 % 2 == 1
        body = chat("Give an entry as JSON.", max_tokens=1200, temperature=1, seed=index, thinking_budget=24,
                    chat_template_kwargs={"enable_thinking": think}, stream=stream, response_format={
                        "type": "json_schema", "json_schema": {"name": "entry", "schema": schema, "strict": True}})
        connection = running.connection(timeout=600)  # other tests may run beside this one
        self.addCleanup(connection.close)
        connection.request("POST", PATH, json.dumps(body))
        answer = connection.getresponse()
        self.assertEqual(answer.status, 200, schema)
        if stream:
            choices = [choice for chunk in chunks(server.read_events(answer)) for choice in chunk["choices"]]
            return choices[-1]["finish_reason"] == "stop", "".join(c["delta"].get("content") or "" for c in choices)
        choice = json.loads(answer.read())["choices"][0]
        return choice["finish_reason"] == "stop", choice["message"]["content"]

    def check(self, model, seed):
        draw = Schemas(seed)
        schemas = [draw.document() for _ in range(SCHEMAS)]
        with server.running("--served-model-name", server.MODEL, model=model) as running:
            with concurrent.futures.ThreadPoolExecutor(16) as pool:
                answers = list(pool.map(lambda item: self.answer(running, *item), enumerate(schemas)))
        lines = [json.dumps({"schema": schema, "text": text}) for schema, (stopped, text) in zip(schemas, answers) if stopped]
        print(f"{len(lines)} of {SCHEMAS} ended by themselves")
        self.assertGreaterEqual(len(lines), 0.95 * SCHEMAS)
        node = shutil.which("node")
        if not node or not (clients_test.NPM / "node_modules" / "ajv").exists():
            self.skipTest("there is no Node, or the npm packages are not installed")
        file = self.folder / "answers.jsonl"
        file.write_text("\n".join(lines), encoding="utf-8")
        done = subprocess.run([node, "validate_schemas.cjs", str(file)], cwd=clients_test.NPM, capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_the_bundled_model(self):
        self.check(braid.POCKET, 1)

    def test_random_weights(self):
        self.check(random_weights(self.copy_model(braid.POCKET)), 2)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--soak"]:
        SCHEMAS = 300
    braid.main()
