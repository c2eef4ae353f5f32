#!/usr/bin/python3
"""Writes random template cases that the tests compare with Jinja2.

usage: random_cases.py SEED COUNT > cases.json
"""
# SPDX-License-Identifier: Apache-2.0
import json
import random
import sys

CONTEXT = {
    "i": 3, "z": 0, "neg": -4, "fl": 2.5, "t": True, "n": None, "s": "Hello, World", "u": "é😀日x", "w": "  a b  c\n", "p": "",
    "l": [3, 1, 2], "ls": ["b", "A", "c", "b"], "m": [1, "x", None, 2.0, True], "e": [], "d": {"b": 1, "a": {"x": [1, 2]}, "items": 5},
    "o": [{"k": "v", "q": 2}, {"k": "w", "q": 1}, {"k": "v", "q": 3}],
}
NAMES = list(CONTEXT) + ["undef"]
LITERALS = ["1", "0", "-2", "7", "2.5", "0.1", "1e20", "true", "false", "none", "'a'", "''", "'a,b,c'", "'%s-%s'", "'{}'", "'o'", "'😀'", "[]", "[1, 2]", "['x', 'y']", "{}", "{'a': 1}", "(1, 2)", "()", "' '", "'\\n'", "'k'"]
BINARY = ["+", "-", "*", "/", "//", "%", "~", "==", "!=", "<", "<=", ">", ">=", "in", "not in", "and", "or"]
FILTERS = [
    "abs", "batch(2)|list", "batch(2, 'x')|list", "capitalize", "center(8)", "count", "default('D')", "default('D', true)", "d(1)", "dictsort", "dictsort(by='value')", "dictsort(reverse=true)",
    "escape", "e", "first", "float", "float(1)", "forceescape", "format(1)", "format('a', 'b')", "groupby('k')", "groupby('k')|map('first')|list", "indent", "indent(2, true)", "int", "int(5)", "items|list", "join", "join(', ')", "join('-', attribute='k')",
    "last", "length", "list", "lower", "map('upper')|list", "map(attribute='k')|list", "map('string')|join('|')", "map(attribute='q', default=0)|list", "map('length')|list", "max", "min", "max(attribute='q')", "reject('string')|list", "reject|list", "rejectattr('k', 'eq', 'v')|list",
    "replace('o', '0')", "replace('l', 'L', 1)", "reverse|list", "round", "round(1)", "round(1, 'floor')", "round(-1)", "safe", "select|list", "select('number')|list", "select('odd')|list", "selectattr('k', 'equalto', 'v')|list", "selectattr('q', 'gt', 1)|map(attribute='q')|list", "slice(2)|list",
    "sort", "sort(reverse=true)", "sort(attribute='q')", "sort(attribute='k,q')", "sort(case_sensitive=true)", "string", "string|length", "sum", "sum(attribute='q')", "sum(start=1)", "title", "tojson", "tojson(indent=2)", "tojson(sort_keys=true)", "tojson(ensure_ascii=true)", "trim", "trim('ab ')", "truncate(5)", "truncate(6, true)", "truncate(4, end='~', leeway=0)",
    "unique|list", "unique(attribute='k')|list", "upper", "urlencode", "wordcount", "list|length", "list|first",
]
TESTS = ["defined", "undefined", "none", "boolean", "true", "false", "integer", "float", "number", "string", "mapping", "sequence", "iterable", "lower", "upper", "odd", "even", "divisibleby 2", "eq 1", "ne 'a'", "lt 2", "ge 2.5", "in [1, 'a', none]", "sameas true", "callable", "escaped"]
METHODS = [
    "upper()", "lower()", "title()", "capitalize()", "swapcase()", "strip()", "strip('a ')", "lstrip('H')", "rstrip('d')", "split()", "split(',')", "split('l', 1)", "rsplit(' ', 1)", "rsplit(none, 1)", "splitlines()", "replace('l', '')", "replace('', '.')", "replace('o', 'oo', 1)", "startswith('H')", "endswith(('d', 'x'))",
    "find('o')", "rfind('o')", "find('')", "index('o')", "count('l')", "count('')", "isdigit()", "isalpha()", "isalnum()", "isspace()", "isupper()", "islower()", "istitle()", "join(['1', '2'])", "join(ls)", "format(1)", "format(1, 2)", "removeprefix('He')", "removesuffix('ld')", "zfill(6)", "ljust(5, '*')", "rjust(5)", "center(7, '-')", "partition(',')", "rpartition('l')",
    "items()|list", "keys()|list", "values()|list", "get('a')", "get('zz', 9)", "get('b')", "copy()", "index(1)", "count(1)", "expandtabs()", "nosuch()",
]
POSTFIX = ["[0]", "[-1]", "[1:]", "[:2]", "[::-1]", "[1:3]", "[-3:-1]", "[::2]", "['a']", "['k']", ".a", ".k", ".b", "[5]", "[:-1]", "[none:2]", "[i]", "[s]", "['a']['x']"]


# What gives a value of a type, with {type} where a value of a type goes.
TYPED = {
    "str": ["s", "u", "w", "p", "'a,b,c'", "'😀k'", "({str} + {str})", "({any} ~ {any})", "({str} * {small})", "{str}[{int}:]", "{str}[:{int}]", "{str}[::{step}]", "{str}|upper", "{str}|title", "{str}|trim", "{str}|replace({str}, {str})", "{list}|join({str})", "{any}|string", "{any}|tojson", "{any}|tojson(indent={small})",
            "{str}.strip()", "{str}.lstrip({str})", "{str}.replace({str}, 'z')", "{str}.upper()", "{str}.title()", "{str}.join({strs})", "{str}|default({str}, true)", "({str} if {bool} else {str})", "'%s|%r|%5s' % ({any}, {any}, {str})", "'%d %x %5.2f' % ({int}, {int}, {num})", "'{} {:>4} {!r}'.format({any}, {str}, {any})", "{str}|indent({small}, {bool})", "{str}|truncate(5)", "{str}.zfill(9)", "{str}.center({small})", "{str}.removeprefix({str})", "{str}|reverse", "{str}|e", "{str}|urlencode", "{str}|capitalize", "{str}.swapcase()", "{any}|string|lower"],
    "int": ["i", "z", "neg", "7", "{any}|string|length", "{list}|length", "({int} + {int})", "({int} - {int})", "({int} * {int})", "({int} // 3)", "({int} % 4)", "{str}.find({str})", "{str}.count({str})", "{str}|wordcount", "{num}|int", "{str}|int", "-{atom}", "{int}|abs", "{int}|round|int", "{ints}|sum", "{ints}|max", "{ints}|min"],
    "num": ["{int}", "fl", "0.1", "({num} / 4)", "({num} * 1.5)", "{num}|round(1)", "{num}|round(1, 'ceil')", "{num}|float", "({num} ** 2)", "({num} // 0.7)", "({num} % 2.3)"],
    "small": ["1", "2", "3"], "step": ["-1", "2", "-2", "1"], "atom": ["i", "neg", "fl|int"],
    "ints": ["l", "[1, 2]", "range({small})", "({ints}|list + [{int}])", "{ints}|sort", "{ints}|reverse|list", "({ints}|list)[1:] + [5]", "o|map(attribute='q')|list", "{ints}|select('odd')|list + [1]", "{ints}|reject('gt', 2)|list + [0]", "{ints}|unique|list"],
    "strs": ["ls", "['x', 'y']", "{str}.split({nstr})", "{str}.split()", "{str}|list", "{str}.splitlines()", "{ints}|map('string')|list", "{strs}|sort", "{strs}|map('upper')|list", "{strs}|unique|list", "o|map(attribute='k')|list", "{str}.rsplit({nstr}, 1)", "{str}.partition({nstr})"],
    "nstr": ["','", "' '", "'l'", "'o, '"],
    "list": ["{ints}", "{strs}", "m", "e", "[{any}, {any}]", "({any}, {any})", "{list}[{int}:]", "{list}[::{step}]", "{list}|batch(2)|list", "{list}|slice(2)|list", "{dict}|dictsort", "{dict}.items()|list", "{dict}|items|list", "o|groupby('k')", "o|sort(attribute='q')", "o|selectattr('q', 'gt', {small})|list", "{list}|map('string')|list", "{list}|select|list", "{list}|reject('none')|list", "({list}|list + {list}|list)"],
    "dict": ["d", "{'a': {any}, 'b': {any}}", "o[0]", "dict(a={any})", "{1: {any}, none: 2}"],
    "bool": ["t", "({any} == {any})", "({any} != {any})", "({int} < {num})", "({str} <= {str})", "({str} in {str})", "({any} in {list})", "(not {any})", "({bool} and {bool})", "({bool} or {bool})", "({any} is string)", "({any} is mapping)", "({any} is none)", "({any} is number)", "({any} is sequence)", "({any} is iterable)", "({int} is odd)", "({int} is divisibleby {small})", "{str}.startswith({str})", "{str}.isalpha()", "({str} is lower)", "('a' in {dict})", "({any} is defined)", "({any} is in {list})", "({num} >= {num} > {num})", "({list}|list == {list}|list)"],
    "any": ["{str}", "{int}", "{num}", "{list}", "{dict}", "{bool}", "n", "undef", "d.nope", "{dict}.a", "{dict}.get('a')", "{dict}['b']", "{list}|first", "{list}|last", "({any} or {any})", "({any} and {any})", "({any} if {bool})"],
}


def typed(r, kind, depth):
    forms = TYPED[kind]
    if depth <= 0:
        forms = [form for form in forms if "{" not in form.replace("{'a'", "").replace("{1:", "")] or forms
    form = r.choice(forms)
    out, at = "", 0
    while at < len(form):
        end = form.find("}", at)
        name = form[at + 1 : end] if form[at] == "{" else ""
        if name in TYPED:
            inner = typed(r, name, depth - 1)
            out += f"({inner})" if "|" in inner or " " in inner or inner.startswith("-") else inner
            at = end + 1
        else:
            out += form[at]
            at += 1
    return out


def expression(r, depth):
    if r.random() < 0.8:
        return typed(r, r.choice(["any", "any", "str", "list"]), depth)
    return wild(r, depth)


def wild(r, depth):
    kind = r.random()
    if depth <= 0 or kind < 0.12:
        return r.choice(NAMES) if r.random() < 0.6 else r.choice(LITERALS)
    inner = lambda: wild(r, depth - 1)
    if kind < 0.34:
        return f"({inner()} {r.choice(BINARY)} {inner()})"
    if kind < 0.40:
        return f"{r.choice(['not ', '-', '+'])}{r.choice(NAMES)}"
    if kind < 0.46:
        return f"({inner()} if {inner()} else {inner()})" if r.random() < 0.8 else f"({inner()} if {inner()})"
    if kind < 0.66:
        return f"({inner()}|{r.choice(FILTERS)})"
    if kind < 0.74:
        return f"({inner()} is {r.choice(['', 'not '])}{r.choice(TESTS)})"
    if kind < 0.88:
        return f"({inner()}).{r.choice(METHODS)}"
    if kind < 0.94:
        # Not on constants, which Jinja slices while it compiles, with other errors.
        return f"{r.choice(NAMES)}{r.choice(POSTFIX)}"
    if kind < 0.97:
        return f"[{inner()}, {inner()}]"
    return f"{{{r.choice(LITERALS[:15])}: {inner()}}}"


SPACES = ["", " ", "\n", "  \n", "\n  ", "\t"]


def body(r, depth):
    return "".join(statement(r, depth) for _ in range(r.randint(1, 3)))


def tag(r, text):
    left, right = r.choice(["{%", "{%-", "{%", "{%+"]), r.choice(["%}", "-%}", "%}", "%}"])
    return f"{r.choice(SPACES)}{left} {text} {right}{r.choice(SPACES)}"


def statement(r, depth):
    kind = r.random()
    if depth <= 0 or kind < 0.35:
        open_, close = r.choice(["{{", "{{-"]), r.choice(["}}", "-}}"])
        return f"{r.choice(SPACES)}{open_} {expression(r, 2)} {close}{r.choice(SPACES)}"
    if kind < 0.45:
        return r.choice(["text", " x ", "\n", "a\n b\n", "{# note #}", "{#- note -#}\n", "{% raw %} {{ i }} {% endraw %}"])
    if kind < 0.6:
        other = tag(r, "else") + body(r, depth - 1) if r.random() < 0.5 else ""
        return tag(r, f"if {expression(r, 2)}") + body(r, depth - 1) + other + tag(r, "endif")
    if kind < 0.78:
        target, loop = r.choice(["v", "v", "v", "k, v"]), r.choice(["l", "ls", "o", "e", "s", "range(4)", "d.items()", "d", "undef", "m", "o|groupby('k')", "l|map('string')", expression(r, 1)])
        condition = r.choice(["", "", f" if {expression(r, 1)}", " if v"])
        inside = body(r, depth - 1) + r.choice(["", "{{ loop.index }}", "{{ loop.last }}{{ loop.length }}", "{{ loop.revindex0 }}", "{{ loop.previtem }}|{{ loop.nextitem }}", "{% if loop.index0 == 1 %}{% break %}{% endif %}", "{% if v == 1 %}{% continue %}{% endif %}", "{{ v }}", "{{ loop.cycle(1, 2) }}", "{{ loop.changed(v) }}", "{% set x = v %}"])
        other = tag(r, "else") + body(r, depth - 1) if r.random() < 0.2 else ""
        return tag(r, f"for {target} in {loop}{condition}") + inside + other + tag(r, "endfor")
    if kind < 0.88:
        name = r.choice(["x", "y", "i", "x, y", "ns.a"])
        return tag(r, f"set {name} = {expression(r, 2)}") + "{{ x }}{{ y }}{{ i }}"
    if kind < 0.92:
        return tag(r, f"set x{r.choice(['', ' | upper', ' | trim'])}") + body(r, depth - 1) + tag(r, "endset") + "{{ x }}"
    if kind < 0.95:
        return tag(r, f"filter {r.choice(['upper', 'trim', 'length', 'indent(2)'])}") + body(r, depth - 1) + tag(r, "endfilter")
    if kind < 0.98:
        name = r.choice(["f", "g"])
        return tag(r, f"macro {name}(a, b={expression(r, 1)})") + body(r, depth - 1) + "{{ a }}{{ b }}" + tag(r, "endmacro") + f"{{{{ {name}({expression(r, 1)}) }}}}"
    return tag(r, f"with x = {expression(r, 1)}") + body(r, depth - 1) + tag(r, "endwith")


def main():
    r = random.Random(int(sys.argv[1]))
    cases = []
    for number in range(int(sys.argv[2])):
        if number % 2:
            template = f"{{{{ {expression(r, 4)} }}}}"
        else:
            template = "{% set ns = namespace(a=1) %}" + body(r, 3) + "{{ ns.a }}"
        cases.append({"template": template, "context": CONTEXT})
    json.dump({"cases": cases}, sys.stdout, ensure_ascii=False)


main()
