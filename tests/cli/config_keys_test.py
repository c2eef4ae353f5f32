# A value of the wrong kind in any key of config.json that a family reads: one line that names the key. Null counts as absent.
# SPDX-License-Identifier: Apache-2.0
import re

import braid

WRONG = ["x", ["x"], {"x": 1}, -1, 2 ** 64 - 1, 1e300]

TRUNK = {
    "vocab_size": 256, "hidden_size": 64, "num_hidden_layers": 4, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 32,
    "max_position_embeddings": 512, "rms_norm_eps": 1e-6, "hidden_act": "silu", "attention_bias": False, "tie_word_embeddings": False,
    "dtype": "bfloat16", "eos_token_id": 2}
OLD_ROPE = {"rope_theta": 10000.0, "partial_rotary_factor": 0.5, "torch_dtype": "bfloat16"}
YARN = {"rope_type": "yarn", "rope_theta": 10000.0, "partial_rotary_factor": 1.0, "factor": 2.0, "original_max_position_embeddings": 256,
        "beta_fast": 32, "beta_slow": 1, "attention_factor": 1.0, "mscale": 1.0, "mscale_all_dim": 1.0, "truncate": True}
LLAMA3 = {"type": "llama3", "factor": 2.0, "original_max_position_embeddings": 256, "low_freq_factor": 1.0, "high_freq_factor": 4.0}
MROPE = {"rope_type": "default", "rope_theta": 10000.0, "partial_rotary_factor": 0.25, "mrope_section": [2, 1, 1]}
SLIDING = {"use_sliding_window": True, "sliding_window": 8, "max_window_layers": 2}
SPARSE = {"num_experts_per_tok": 2, "moe_intermediate_size": 32, "norm_topk_prob": True, "mlp_only_layers": [0], "decoder_sparse_step": 1,
          "intermediate_size": 96}
DELTA = {"linear_num_key_heads": 2, "linear_num_value_heads": 4, "linear_key_head_dim": 16, "linear_value_head_dim": 16,
         "linear_conv_kernel_dim": 4, "full_attention_interval": 4, "mamba_ssm_dtype": "float32", "attn_output_gate": True,
         "output_gate_type": "swish", "mtp_num_hidden_layers": 1, "mtp_use_dedicated_embeddings": False}
TYPES = ["linear_attention", "linear_attention", "linear_attention", "full_attention"]
FP8 = {"quant_method": "fp8", "fmt": "e4m3", "weight_block_size": [128, 128], "scale_fmt": "ue8m0", "modules_to_not_convert": ["a"],
       "ignored_layers": ["b"], "exclude_modules": ["c"]}
PACKED = {"quant_method": "compressed-tensors", "format": "nvfp4-pack-quantized", "ignore": ["lm_head"]}

CONFIGS = {
    "qwen3": TRUNK | SLIDING | {"intermediate_size": 128, "rope_parameters": YARN, "quantization_config": FP8},
    "qwen3 by types": TRUNK | {"model_type": "qwen3", "intermediate_size": 128, "layer_types": ["full_attention"] * 4,
                               "quantization_config": PACKED, "rope_theta": 10000.0, "rope_scaling": LLAMA3},
    "qwen3_moe": TRUNK | SLIDING | OLD_ROPE | SPARSE | {"num_local_experts": 8, "rope_scaling": {"type": "linear", "factor": 2.0}},
    "qwen3_next": TRUNK | OLD_ROPE | SPARSE | DELTA | {"num_experts": 8, "shared_expert_intermediate_size": 48},
    "qwen3_5": TRUNK | DELTA | {"intermediate_size": 128, "layer_types": TYPES, "rope_parameters": MROPE},
    "qwen3_5_moe": TRUNK | DELTA | {"num_experts": 8, "num_experts_per_tok": 2, "moe_intermediate_size": 32,
                                    "shared_expert_intermediate_size": 48, "rope_parameters": MROPE},
}
# What is no fault: a list of names where there may be one.
FINE = {(key, repr(["x"])) for key in ("ignore", "ignored_layers", "modules_to_not_convert", "exclude_modules")} | {("scale_fmt", repr("x"))}


class ConfigKeys(braid.Case):
    def describe(self, config):
        braid.write_json(self.folder / "config.json", config)
        code, out, err = braid.run("describe", self.folder)
        return code, re.sub(r"[\d.]+ GB available", "GB available", out), err

    def wrapped(self):
        inner = {"model_type": "qwen3_5_text"} | CONFIGS["qwen3_5"]
        return {"model_type": "qwen3_5", "text_config": inner}

    def check(self, key, config, place):
        """Puts every wrong value under `key` of `place`, an object within `config`."""
        right = place[key]
        for value in WRONG:
            place[key] = value
            if isinstance(right, dict) and isinstance(value, dict) or (key, repr(value)) in FINE:
                continue
            code, out, err = self.describe(config)
            lines = [line for line in err.splitlines() if not line.startswith("warning ")]
            with self.subTest(f"{config.get('model_type')} {key} {value}"):
                self.assertEqual((code, len(lines)), (1, 1), f"{out}\n{err}")
                self.assertIn("config.json", lines[0])
                self.assertIn(key, lines[0])
        place[key] = None
        as_null = self.describe(config)
        del place[key]
        with self.subTest(f"{config.get('model_type')} {key} null"):
            self.assertEqual(as_null, self.describe(config))
            self.assertTrue(as_null[0] == 0 or as_null[0] == 1 and as_null[2].count("\n") == 1, as_null)
        place[key] = right

    def test_every_key_of_every_family(self):
        for name, settings in CONFIGS.items():
            config = {"model_type": name} | settings
            if "torch_dtype" in config:
                del config["dtype"]  # the newer spelling is the one that counts
            self.assertEqual(self.describe(config)[0], 0, f"{name}: {self.describe(config)}")
            for key in list(config):
                self.check(key, config, config)
            for key in ("rope_parameters", "rope_scaling", "quantization_config"):
                for inner in list(config.get(key, {})):
                    self.check(inner, config, config[key])

    def test_the_wrapper_of_a_multimodal_model(self):
        config = self.wrapped()
        self.assertEqual(self.describe(config)[0], 0)
        for value in ("x", ["x"], -1, 1e300):
            self.fail_in_one_line(["text_config"], "describe", self.write({**config, "text_config": value}))
        for key in ("hidden_size", "layer_types", "rope_parameters", "model_type"):
            self.check(key, config, config["text_config"])

    def write(self, config):
        braid.write_json(self.folder / "config.json", config)
        return self.folder

    def test_no_key_is_left_out(self):
        """What the families ask of a config, in their source, is what is tried above."""
        asked = set()
        for file in (braid.SOURCE / "src" / "model" / "families").glob("*.cpp"):
            text = file.read_text(encoding="utf-8")
            for call in re.findall(r"config\.(?:integer|size|count|counts|number|flag|text|texts|object|size_of|expect)\(([^)]*)", text):
                asked |= set(re.findall(r'"(\w+)"', call.split(",")[0] if "{" not in call else call))
        tried = {"model_type"}
        for config in CONFIGS.values():
            tried |= set(config)
        self.assertGreater(len(asked), 20)
        self.assertEqual(asked - tried, set())


if __name__ == "__main__":
    braid.main()
