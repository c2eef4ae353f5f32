#!/usr/bin/env python3
"""Writes a checkpoint of a published shape with random bf16 weights, to measure loading with.

usage: random_checkpoint.py SHAPE FOLDER [--layers N]     SHAPE: a folder with the config.json of a dense hybrid
"""
# SPDX-License-Identifier: Apache-2.0
import argparse
import json
import pathlib
import random
import shutil
import struct

SHARD = 4 << 30
BLOCK = 64 << 20


def block_of_numbers():
    """Numbers of about 1/128 of either sign."""
    draw = random.Random(1)
    raw = bytearray(BLOCK)
    raw[0::2] = draw.randbytes(BLOCK // 2).translate(bytes(b & 0x7F for b in range(256)))
    raw[1::2] = draw.randbytes(BLOCK // 2).translate(bytes(b & 0x80 | 0x3C for b in range(256)))
    return bytes(raw)


def tensors(config, layers):
    text = config.get("text_config", config)
    width, inner, vocabulary = text["hidden_size"], text["intermediate_size"], text["vocab_size"]
    heads, kv_heads, size = text["num_attention_heads"], text["num_key_value_heads"], text["head_dim"]
    key_heads, value_heads = text["linear_num_key_heads"], text["linear_num_value_heads"]
    keys, values = key_heads * text["linear_key_head_dim"], value_heads * text["linear_value_head_dim"]
    channels = 2 * keys + values
    yield "lm_head.weight", [vocabulary, width]
    yield "model.language_model.embed_tokens.weight", [vocabulary, width]
    yield "model.language_model.norm.weight", [width]
    for layer in range(layers):
        at = f"model.language_model.layers.{layer}."
        yield at + "input_layernorm.weight", [width]
        yield at + "post_attention_layernorm.weight", [width]
        for name, shape in (("gate", [inner, width]), ("up", [inner, width]), ("down", [width, inner])):
            yield f"{at}mlp.{name}_proj.weight", shape
        if (layer + 1) % text["full_attention_interval"] == 0:
            at += "self_attn."
            yield at + "q_proj.weight", [2 * heads * size, width]
            yield at + "k_proj.weight", [kv_heads * size, width]
            yield at + "v_proj.weight", [kv_heads * size, width]
            yield at + "o_proj.weight", [width, heads * size]
            yield at + "q_norm.weight", [size]
            yield at + "k_norm.weight", [size]
            continue
        at += "linear_attn."
        yield at + "A_log", [value_heads]
        yield at + "dt_bias", [value_heads]
        yield at + "conv1d.weight", [channels, 1, text["linear_conv_kernel_dim"]]
        yield at + "in_proj_qkv.weight", [channels, width]
        yield at + "in_proj_z.weight", [values, width]
        yield at + "in_proj_a.weight", [value_heads, width]
        yield at + "in_proj_b.weight", [value_heads, width]
        yield at + "norm.weight", [text["linear_value_head_dim"]]
        yield at + "out_proj.weight", [width, values]


def bytes_of(shape):
    size = 2
    for extent in shape:
        size *= extent
    return size


def write_shard(path, parts, block):
    header, at = {}, 0
    for name, shape in parts:
        header[name] = {"dtype": "BF16", "shape": shape, "data_offsets": [at, at + bytes_of(shape)]}
        at += bytes_of(shape)
    text = json.dumps(header).encode()
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for left in range(at, 0, -BLOCK):
            file.write(block if left >= BLOCK else block[:left])
    return at


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("shape", type=pathlib.Path)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--layers", type=int, default=0, help="the first so many; 0: all")
    options = parser.parse_args()
    config = json.loads((options.shape / "config.json").read_text(encoding="utf-8"))
    text = config.get("text_config", config)
    text["num_hidden_layers"] = options.layers or text["num_hidden_layers"]
    text["mtp_num_hidden_layers"] = 0
    options.folder.mkdir(parents=True, exist_ok=True)
    (options.folder / "config.json").write_text(json.dumps(config, indent=1), encoding="utf-8")
    shards, size = [[]], 0
    for name, shape in tensors(config, text["num_hidden_layers"]):
        if size + bytes_of(shape) > SHARD and shards[-1]:
            shards.append([])
            size = 0
        shards[-1].append((name, shape))
        size += bytes_of(shape)
    needed = sum(bytes_of(shape) for parts in shards for _, shape in parts)
    if shutil.disk_usage(options.folder).free < needed:
        raise SystemExit(f"{options.folder}: {needed} bytes are needed, {shutil.disk_usage(options.folder).free} are free")
    block, index = block_of_numbers(), {}
    for number, parts in enumerate(shards, 1):
        file = f"model-{number:05}-of-{len(shards):05}.safetensors"
        write_shard(options.folder / file, parts, block)
        index.update({name: file for name, _ in parts})
    (options.folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": index}), encoding="utf-8")
    print(f"{needed / 1e9:.2f} GB in {len(shards)} files")


if __name__ == "__main__":
    main()
