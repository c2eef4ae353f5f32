# What no stored case covers, made from one: shards, wrappers of multimodal models, older config spellings, partial FP8 blocks.
# Each must give the logits of the case it was made from.
# SPDX-License-Identifier: Apache-2.0
import json
import re
import struct

import braid


def f32_values(dtype, data):
    if dtype == "F32":
        return list(struct.unpack(f"<{len(data) // 4}f", data))
    return [struct.unpack("<f", b"\0\0" + data[i:i + 2])[0] for i in range(0, len(data), 2)]


def e4m3(value):
    """The nearest E4M3 code, by trying all."""
    return min(E4M3, key=lambda code: (abs(E4M3[code] - value), code & 1))


def e4m3_value(code):
    exponent, fraction = code >> 3 & 15, code & 7
    magnitude = fraction * 2.0 ** -9 if exponent == 0 else (8 + fraction) * 2.0 ** (exponent - 10)
    return -magnitude if code & 128 else magnitude


E4M3 = {code: e4m3_value(code) for code in range(256) if code & 127 != 127}


class Derived(braid.Case):
    def verified(self, case):
        self.succeed("verify", case)
        self.succeed("verify", case, "--device", "reference")

    def change_config(self, case, change):
        config = braid.read_json(case / "config.json")
        changed = change(config) or config
        braid.write_json(case / "config.json", changed)

    def rename(self, case, name_of):
        tensors, metadata = braid.read_safetensors(case / "model.safetensors")
        braid.write_safetensors(case / "model.safetensors", {name_of(name): value for name, value in tensors.items()}, metadata)

    def test_shards_with_an_index(self):
        case = self.copy_model(braid.GOLDENS / "qwen3_5_moe")
        tensors, _ = braid.read_safetensors(case / "model.safetensors")
        (case / "model.safetensors").unlink()
        parts = [{}, {}, {}]
        for i, (name, value) in enumerate(sorted(tensors.items())):
            parts[i % 3][name] = value
        index = {"metadata": {"total_size": 0}, "weight_map": {}}
        for i, part in enumerate(parts):
            file = f"model-{i + 1:05}-of-00003.safetensors"
            braid.write_safetensors(case / file, part, {"format": "pt"})
            index["weight_map"].update({name: file for name in part})
        braid.write_json(case / "model.safetensors.index.json", index)
        self.verified(case)
        (case / "model-00002-of-00003.safetensors").unlink()
        self.fail_in_one_line(["model-00002-of-00003.safetensors"], "verify", case)

    def test_shards_may_be_links(self):
        case = self.copy_model(braid.GOLDENS / "qwen3")
        (case / "model.safetensors").rename(self.folder / "blob")
        (case / "model.safetensors").symlink_to(self.folder / "blob")
        self.verified(case)

    def test_multimodal_wrapper(self):
        for family, wrapper in (("qwen3_5", "qwen3_5"), ("qwen3_5_moe", "qwen3_5_moe")):
            case = self.copy_model(braid.GOLDENS / family, family)
            self.change_config(case, lambda config: {"model_type": wrapper, "architectures": ["X"], "text_config": config,
                                                     "vision_config": {"depth": 2}, "image_token_id": 5,
                                                     "tie_word_embeddings": config["tie_word_embeddings"]})
            self.rename(case, lambda name: name.replace("model.", "model.language_model.", 1) if name.startswith("model.") else name)
            tensors, metadata = braid.read_safetensors(case / "model.safetensors")
            tensors["model.visual.blocks.0.attn.qkv.weight"] = ("BF16", [2, 2], b"\0" * 8)
            braid.write_safetensors(case / "model.safetensors", tensors, metadata)
            self.verified(case)
            code, out, err = braid.run("--log", "info", "verify", case)
            self.assertEqual(code, 0)
            self.assertIn("vision", err)

    def test_either_level_of_a_wrapper_may_tie_the_head(self):
        config = braid.read_json(braid.GOLDENS / "qwen3_5_tied" / "config.json")
        parameters = []
        for outer, inner in ((True, True), (True, False), (False, True), (True, None), (None, True), (False, False)):
            folder = self.folder / f"{outer}-{inner}"
            folder.mkdir()
            braid.write_json(folder / "config.json", {"model_type": "qwen3_5", "tie_word_embeddings": outer,
                                                      "text_config": {**config, "tie_word_embeddings": inner}})
            parameters.append(re.search(r"parameters .*", self.succeed("describe", folder))[0])
        self.assertEqual(len(set(parameters[:-1])), 1, parameters)
        self.assertNotEqual(parameters[0], parameters[-1])

    def test_what_ends_an_answer(self):
        config = braid.read_json(braid.POCKET / "config.json")
        end = config.pop("eos_token_id")
        wrapped = {"model_type": config["model_type"].removesuffix("_text"), "quantization_config": config["quantization_config"],
                   "text_config": config | {"eos_token_id": end}}
        named = "<|im_end|>"
        for what, content, token, ends in (("text_config", wrapped, None, True), ("tokenizer", config, named, True),
                                           ("both", wrapped, named, True), ("nothing", config, None, False)):
            model = self.copy_model(braid.POCKET, what)
            (model / "generation_config.json").unlink()
            braid.write_json(model / "config.json", content)
            settings = braid.read_json(model / "tokenizer_config.json")
            self.assertEqual(settings["eos_token"], named)
            braid.write_json(model / "tokenizer_config.json", settings | {"eos_token": token})
            code, out, err = braid.run("run", model, "Define river.", "--temperature", 0, "--max-tokens", 60, "--stats")
            self.assertEqual(code, 0, err)
            self.assertEqual("finish stop" in err, ends, f"{what}: {out}{err}")
            self.assertEqual("no token is known that ends an answer" in err, not ends, f"{what}: {err}")

    def test_older_config_spelling(self):
        for family in ("qwen3", "qwen3_moe", "qwen3_next", "qwen3_5"):
            case = self.copy_model(braid.GOLDENS / family, family)

            def older(config):
                rope = config.pop("rope_parameters")
                config["rope_theta"] = rope["rope_theta"]
                if "partial_rotary_factor" in rope:
                    config["partial_rotary_factor"] = rope["partial_rotary_factor"]
                config["rope_scaling"] = {"mrope_section": rope["mrope_section"], "type": "default"} if "mrope_section" in rope else None
                config["torch_dtype"] = config.pop("dtype")
                if "num_local_experts" in config:
                    config["num_experts"] = config.pop("num_local_experts")
                if "linear_attention" in config.get("layer_types", []):
                    del config["layer_types"]
                    config["full_attention_interval"] = 4
                config.pop("head_dim") if config["head_dim"] * config["num_attention_heads"] == config["hidden_size"] else None

            self.change_config(case, older)
            self.verified(case)

    def test_sparse_step_makes_dense_layers(self):
        # A dense layer where an expert layer is stored: the plan must look for mlp.gate_proj, which is not there.
        case = self.copy_model(braid.GOLDENS / "qwen3_next")
        self.change_config(case, lambda config: config.update(decoder_sparse_step=2))
        self.fail_in_one_line(["mlp.gate_proj"], "verify", case)

    def test_experts_fused_and_one_by_one_are_the_same(self):
        case = self.copy_model(braid.GOLDENS / "qwen3_5_moe")
        tensors, metadata = braid.read_safetensors(case / "model.safetensors")
        for layer in range(4):
            at = f"model.layers.{layer}.mlp.experts."
            halves = [tensors.pop(f"{at}{e}.{half}_proj.weight") for e in range(8) for half in ("gate", "up")]
            downs = [tensors.pop(f"{at}{e}.down_proj.weight") for e in range(8)]
            tensors[f"{at}gate_up_proj"] = ("BF16", [8, 64, 64], b"".join(data for _, _, data in halves))
            tensors[f"{at}down_proj"] = ("BF16", [8, 64, 32], b"".join(data for _, _, data in downs))
        braid.write_safetensors(case / "model.safetensors", tensors, metadata)
        self.verified(case)

    def quantised(self, case, rows, columns):
        """Codes every projection in FP8 blocks; a twin in F32 holds the values that the codes stand for."""
        tensors, metadata = braid.read_safetensors(case / "model.safetensors")
        coded, plain = {}, {}
        for name, (dtype, shape, data) in tensors.items():
            if not name.endswith("_proj.weight") or "in_proj_a" in name or "in_proj_b" in name:
                coded[name] = plain[name] = (dtype, shape, data)
                continue
            n, k = shape
            values = f32_values(dtype, data)
            grid = [[1.0] * ((k + columns - 1) // columns) for _ in range((n + rows - 1) // rows)]
            for i, row in enumerate(grid):
                for j in range(len(row)):
                    block = [abs(values[a * k + b]) for a in range(i * rows, min(n, (i + 1) * rows))
                             for b in range(j * columns, min(k, (j + 1) * columns))]
                    scale = max(block) / 448 * (1 + 0.25 * (i + j)) or 1.0  # unequal on purpose
                    row[j] = struct.unpack("<f", struct.pack("<f", scale))[0]
            cache, codes, decoded = {}, bytearray(), []
            for a in range(n):
                for b in range(k):
                    scale = grid[a // rows][b // columns]
                    key = values[a * k + b] / scale
                    if key not in cache:
                        cache[key] = e4m3(key)
                    codes.append(cache[key])
                    decoded.append(E4M3[cache[key]] * scale)
            coded[name] = ("F8_E4M3", shape, bytes(codes))
            flat = [scale for row in grid for scale in row]
            coded[name + "_scale_inv"] = ("F32", [len(grid), len(grid[0])], struct.pack(f"<{len(flat)}f", *flat))
            plain[name] = ("F32", shape, struct.pack(f"<{len(decoded)}f", *decoded))
        twin = self.copy_model(case, case.name + "-plain")
        braid.write_safetensors(twin / "model.safetensors", plain, metadata)
        braid.write_safetensors(case / "model.safetensors", coded, metadata)
        self.change_config(case, lambda config: config.update(quantization_config={
            "quant_method": "fp8", "fmt": "e4m3", "activation_scheme": "dynamic", "weight_block_size": [rows, columns]}))
        return twin

    def test_partial_fp8_blocks(self):
        # 48 and 40 divide neither the rows nor the columns; 128 leaves matrices of one partial block.
        for family, block in (("qwen3_next", (48, 40)), ("qwen3_5_tied", (128, 128))):
            case = self.copy_model(braid.GOLDENS / family, family)
            twin = self.quantised(case, *block)
            for device in ("reference", "cpu"):
                shown = [json.loads(self.succeed("run", model, "--raw", "--ids", "5 6 7 8 9 10 11", "--json", "--temperature", 0, "--max-tokens",
                                                 40, "--device", device, "--activations", "f32")) for model in (case, twin)]
                self.assertEqual(shown[0]["answer_ids"], shown[1]["answer_ids"], f"{family} {device}")
                self.assertEqual(len(shown[0]["answer_ids"]), 40)
            formats = json.loads(self.succeed("describe", case, "--json"))["formats"]
            self.assertIn("fp8_block", formats)

    def test_head_may_be_tied_by_absence(self):
        case = self.copy_model(braid.GOLDENS / "qwen3_5_tied")
        self.change_config(case, lambda config: config.pop("tie_word_embeddings") and None)
        self.verified(case)

    def test_hub_cache_is_looked_at(self):
        self.fail_in_one_line(["nobody/nothing"], "describe", "nobody/nothing")


if __name__ == "__main__":
    braid.main()
