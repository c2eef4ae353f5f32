#!/usr/bin/python3
"""Widens a byte-level tokenizer with tokens of another one, for speed with vocabularies that are not at hand.

usage: wide_tokenizer.py TOKENIZER.json OTHER.json TOKENS FOLDER   (writes FOLDER/tokenizer.json with so many tokens)

The new tokens stand between the vocabulary and the added tokens, and no merge makes them: texts are cut as before, and
masks are made for all of them.
"""
# SPDX-License-Identifier: Apache-2.0
import json
import pathlib
import sys


def main(base, other, tokens, folder):
    wide = json.loads(pathlib.Path(base).read_text(encoding="utf-8"))
    more = json.loads(pathlib.Path(other).read_text(encoding="utf-8"))["model"]["vocab"]
    vocabulary = wide["model"]["vocab"]
    outside = [token for token in wide["added_tokens"] if token["content"] not in vocabulary]
    new = [token for token in sorted(more, key=more.get) if token not in vocabulary]
    wanted = tokens - len(outside) - len(vocabulary)
    if not 0 <= wanted <= len(new):
        sys.exit(f"wide_tokenizer: {len(vocabulary) + len(outside)} tokens, and {len(new)} more to choose from")
    for token in new[:wanted] + [token["content"] for token in outside]:
        vocabulary[token] = len(vocabulary)
    for token in outside:
        token["id"] = vocabulary.pop(token["content"])
    pathlib.Path(folder).mkdir(parents=True, exist_ok=True)
    (pathlib.Path(folder) / "tokenizer.json").write_text(json.dumps(wide), encoding="utf-8")


if __name__ == "__main__":
    if len(sys.argv) != 5:
        sys.exit(__doc__)
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4])
