#!/usr/bin/python3
"""Writes conversations.json: contexts that the tests render every chat template with.

usage: make_conversations.py > conversations.json
"""
# SPDX-License-Identifier: Apache-2.0
import json
import sys

WEATHER = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "Get the weather — wie ist's?",
        "parameters": {
            "type": "object",
            "properties": {
                "city": {"type": "string", "description": "The city's <name> & region"},
                "unit": {"type": "string", "enum": ["celsius", "fahrenheit"], "default": "celsius"},
                "days": {"type": ["integer", "null"], "minimum": 1, "maximum": 14},
            },
            "required": ["city"],
        },
    },
}
SEARCH = {
    "type": "function",
    "function": {
        "name": "search",
        "description": "Search \"everything\"\nquickly",
        "parameters": {
            "type": "object",
            "properties": {
                "query": {"type": "string"},
                "filter": {
                    "type": "object",
                    "properties": {
                        "tags": {"type": "array", "items": {"type": "string"}},
                        "range": {"anyOf": [{"type": "number"}, {"type": "null"}]},
                    },
                },
                "limit": {"type": "number", "default": 10.5},
            },
            "required": ["query", "filter"],
            "additionalProperties": False,
        },
        "strict": True,
    },
}
EMPTY = {"type": "function", "function": {"name": "now", "parameters": {"type": "object", "properties": {}}}}
BARE = {"name": "ping", "description": "no wrapper", "parameters": {"type": "object", "properties": {}}}


def system(text):
    return {"role": "system", "content": text}


def user(text):
    return {"role": "user", "content": text}


def assistant(text, **more):
    return {"role": "assistant", "content": text, **more}


def call(name, arguments, number=1):
    return {"type": "function", "id": f"callid{number:03d}", "function": {"name": name, "arguments": arguments}}


def tool(text, number=1, **more):
    return {"role": "tool", "content": text, "tool_call_id": f"callid{number:03d}", **more}


def parts(*texts):
    return [{"type": "text", "text": text} for text in texts]


LONDON = {"city": "London", "unit": "celsius"}
NESTED = {"query": "a \"b\" <c>", "filter": {"tags": ["x", "ÿ", "😀"], "range": None, "deep": {"n": [1, 2.5, -3e-7, True]}}}

CHATS = {
    "user": [user("Hello")],
    "system user": [system("You are terse."), user("Hello")],
    "turns": [user("Hi"), assistant("Hello!"), user("Bye")],
    "long turns": [system("S")] + [m for i in range(4) for m in (user(f"q{i}"), assistant(f"a{i}"))] + [user("last")],
    "ends with assistant": [user("Hi"), assistant("Partial")],
    "system only": [system("Alone")],
    "empty list": [],
    "two systems": [system("A"), system("B"), user("Hi")],
    "late system": [user("Hi"), system("Now be brief."), user("Ok?")],
    "unicode": [system("Ünïcödé ☃"), user("日本語 😀 \u200b zero\u00a0width"), assistant("👩‍👩‍👧 ok"), user("ß ﬁ İ")],
    "spaces": [system("  padded  "), user("\n\n lines \n\n"), assistant("\ttab\n"), user(" x ")],
    "empty content": [system(""), user(""), assistant(""), user("")],
    "markup": [user("<|im_start|>user\nfake<|im_end|> {{ 1 }} {% if %} </think>"), assistant("a < b && c > \"d\" 'e' \\ /"), user("ok")],
    "think": [user("2+2?"), assistant("<think>\nadd\n</think>\n\n4"), user("3+3?")],
    "think last": [user("2+2?"), assistant("<think>\nadd\n</think>\n\n4")],
    "two thinks": [user("a"), assistant("<think>x</think>b<think>y</think>c"), user("d"), assistant("</think>e"), user("f")],
    "reasoning": [user("2+2?"), assistant("4", reasoning_content="I add.\n"), user("and 3?")],
    "reasoning last": [user("2+2?"), assistant("4", reasoning_content="I add.")],
    "reasoning null": [user("2+2?"), assistant("4", reasoning_content=None), user("?")],
    "reasoning other name": [user("2+2?"), assistant("4", reasoning="I add.", thinking="hm"), user("?")],
    "null content": [user("Hi"), assistant(None), user("?")],
    "no content": [user("Hi"), {"role": "assistant"}, user("?")],
    "parts": [system(parts("S1", "S2")), user(parts("Hello ", "world")), assistant(parts("ok")), user("x")],
    "one part": [user(parts("only"))],
    "image part": [user([{"type": "image"}, {"type": "text", "text": "What is it?"}])],
    "image url part": [user([{"type": "image_url", "image_url": {"url": "data:,x"}}, {"type": "text", "text": "?"}, {"type": "video"}])],
    "call": [user("Weather?"), assistant("", tool_calls=[call("get_weather", LONDON)]), tool("{\"t\": 20}"), assistant("20 degrees."), user("Thanks")],
    "call null": [user("Weather?"), assistant(None, tool_calls=[call("get_weather", LONDON)]), tool("20")],
    "call no content": [user("Weather?"), {"role": "assistant", "tool_calls": [call("get_weather", LONDON)]}, tool("20")],
    "call with text": [user("Weather?"), assistant("Let me look.", tool_calls=[call("get_weather", LONDON)]), tool("20")],
    "call unanswered": [user("Weather?"), assistant("", tool_calls=[call("get_weather", LONDON)])],
    "call string": [user("Weather?"), assistant("", tool_calls=[call("get_weather", json.dumps(LONDON))]), tool("20"), assistant("20")],
    "call bad string": [user("Weather?"), assistant("", tool_calls=[call("get_weather", "{city:")]), tool("error")],
    "call empty": [user("Time?"), assistant("", tool_calls=[call("now", {})]), tool("12:00")],
    "call nested": [user("Find"), assistant("", tool_calls=[call("search", NESTED)]), tool("[]"), assistant("none")],
    "call nested string": [user("Find"), assistant("", tool_calls=[call("search", json.dumps(NESTED, ensure_ascii=False))]), tool("[]")],
    "two calls": [user("Both"), assistant("", tool_calls=[call("get_weather", LONDON), call("now", {}, 2)]), tool("20"), tool("12:00", 2), assistant("Done"), user("More")],
    "three results": [user("All"), assistant(None, tool_calls=[call("now", {}, i) for i in (1, 2, 3)]), tool("a"), tool("b", 2), tool("c", 3)],
    "calls in turn": [user("Go"), assistant("", tool_calls=[call("now", {})]), tool("1"), assistant("", tool_calls=[call("search", NESTED, 2)]), tool("2", 2), assistant("end"), user("again"), assistant("", tool_calls=[call("now", {}, 3)]), tool("3", 3)],
    "call with thinking": [user("Go"), assistant("<think>\nplan\n</think>\n\nok", tool_calls=[call("now", {})]), tool("1"), assistant("<think>\nend\n</think>\n\nfine"), user("next")],
    "call with reasoning": [user("Go"), assistant("", reasoning_content="plan", tool_calls=[call("get_weather", LONDON)]), tool("1"), assistant("fine", reasoning_content="sum up")],
    "bare calls": [user("Go"), assistant("", tool_calls=[{"name": "now", "arguments": {"a": 1}}]), tool("1")],
    "short id": [user("Go"), assistant("", tool_calls=[{"id": "x", "type": "function", "function": {"name": "now", "arguments": {}}}]), {"role": "tool", "tool_call_id": "x", "content": "1"}],
    "tool first": [tool("orphan"), user("Hi")],
    "tool unicode": [user("Go"), assistant("", tool_calls=[call("search", {"query": "日本 \u2028 \"q\"\n\ttab"})]), tool("{\"ok\": \"ÿ😀\", \"n\": null}")],
    "tool object": [user("Go"), assistant("", tool_calls=[call("now", {})]), tool({"a": [1, 2.0, None], "b": "x"})],
    "tool list": [user("Go"), assistant("", tool_calls=[call("now", {})]), tool([{"type": "text", "text": "r1"}, {"type": "text", "text": "r2"}])],
    "tool named": [user("Go"), assistant("", tool_calls=[call("now", {})]), tool("1", name="now"), user("?")],
    "ipython": [user("run"), assistant("print(1)"), {"role": "ipython", "content": "1"}],
    "tool response role": [user("run"), assistant("", tool_calls=[call("now", {})]), {"role": "tool_response", "content": "1"}],
    "developer": [{"role": "developer", "content": "Be exact."}, user("Hi")],
    "unknown role": [user("Hi"), {"role": "critic", "content": "bad"}, user("ok")],
    "double user": [user("a"), user("b"), assistant("c"), assistant("d"), user("e")],
    "assistant first": [assistant("Welcome"), user("Hi")],
    "numbers": [user("n"), assistant("", tool_calls=[call("search", {"query": "q", "i": 3, "f": 1.0, "big": 12345678901234567890, "small": 1e-9, "neg": -0.5, "b": False, "n": None})]), tool("0")],
    "agent history": [system("agent"), assistant("", tool_calls=[call("now", {})]), tool("1"), assistant("ok")],
    "only tools": [system("S"), tool("x")],
    "prefix": [user("Write"), assistant("Once upon", prefix=True)],
    "newline think": [user("q"), assistant("<think>\n\n</think>\n\nanswer"), user("r"), assistant("<think>\nl1\nl2\n</think>\nanswer2\n"), user("s")],
    "tool response user": [user("Go"), assistant("", tool_calls=[call("now", {})]), user("<tool_response>\n12\n</tool_response>"), assistant("12")],
}


def context(messages, **more):
    base = {"messages": messages, "tools": None, "documents": None, "add_generation_prompt": True, "bos_token": "<s>", "eos_token": "</s>"}
    base.update(more)
    return base


def variants(name, messages):
    talks_of_tools = any("tool_calls" in m or m["role"] == "tool" for m in messages)
    yield name, context(messages)
    yield f"{name}, complete", context(messages, add_generation_prompt=False)
    if talks_of_tools:
        yield f"{name}, tools", context(messages, tools=[WEATHER, SEARCH, EMPTY])
    if "think" in name or "reasoning" in name or name in ("user", "turns", "call"):
        yield f"{name}, thinking off", context(messages, enable_thinking=False, thinking=False)
        yield f"{name}, thinking on", context(messages, enable_thinking=True, thinking=True, tools=[WEATHER])


def main():
    made = {}
    for name, messages in CHATS.items():
        made.update(variants(name, messages))
    simple = [system("S"), user("Hi")]
    made["tools with system"] = context(simple, tools=[WEATHER, SEARCH])
    made["tools without system"] = context([user("Hi")], tools=[EMPTY])
    made["bare tool"] = context([user("Hi")], tools=[BARE])
    made["no tools in list"] = context([user("Hi")], tools=[])
    made["effort"] = context(simple, reasoning_effort="high", tools=[WEATHER], model_identity="I am a test.", builtin_tools=["python"])
    made["tools in user message off"] = context(simple, tools=[WEATHER], tools_in_user_message=False, date_string="01 Jan 2025")
    made["documents"] = context(simple, documents=[{"title": "T", "text": "body", "extra": 1}])
    made["vision ids"] = context([user([{"type": "image"}, {"type": "text", "text": "t"}])], add_vision_id=True)
    json.dump(made, sys.stdout, ensure_ascii=False, indent=None, separators=(",", ":"))
    sys.stdout.write("\n")


main()
