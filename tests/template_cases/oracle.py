#!/usr/bin/python3
"""Renders template cases with Jinja2, set up as transformers sets it up for chat templates.

usage: oracle.py CASES.json RESULTS.json
CASES: {"templates": {name: source}, "cases": [{"template": source} or {"name": name}, "context": {...}]}
RESULTS: a list with {"output": text}, {"raised": text given to raise_exception} or {"error": type and message} per case.
"""
# SPDX-License-Identifier: Apache-2.0
import json
import sys
import warnings
from datetime import datetime

import jinja2
import jinja2.ext
from jinja2.sandbox import ImmutableSandboxedEnvironment

NOW = datetime(2024, 3, 9, 17, 5, 2)


class Generation(jinja2.ext.Extension):
    """{% generation %} marks what the assistant wrote; rendering passes it through."""

    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return jinja2.nodes.CallBlock(self.call_method("_pass"), [], [], body).set_lineno(line)

    def _pass(self, caller):
        return caller()


class Raised(jinja2.exceptions.TemplateError):
    """What a template asked for with raise_exception."""


def raise_exception(message):
    raise Raised(message)


def tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
    return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def environment():
    env = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[Generation, jinja2.ext.loopcontrols]
    )
    env.filters["tojson"] = tojson
    env.globals["raise_exception"] = raise_exception
    env.globals["strftime_now"] = lambda form: NOW.strftime(form)
    return env


def main():
    with open(sys.argv[1], encoding="utf-8") as file:
        job = json.load(file)
    warnings.simplefilter("ignore")
    env = environment()
    parsed = {}
    results = []
    for case in job["cases"]:
        source = case["template"] if "template" in case else job["templates"][case["name"]]
        try:
            if source not in parsed:
                parsed[source] = env.from_string(source)
            output = parsed[source].render(**case["context"])
            output.encode("utf-8")
            results.append({"output": output})
        except Raised as error:
            results.append({"raised": str(error)})
        except Exception as error:  # every failure of a template counts alike
            results.append({"error": f"{type(error).__name__}: {error}"})
    with open(sys.argv[2], "w", encoding="utf-8") as file:
        json.dump(results, file, ensure_ascii=False)


main()
