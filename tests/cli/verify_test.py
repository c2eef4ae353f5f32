# The reference cases of every family, through `braid verify`: whole and in chunks, on every executor, and branch by branch.
# SPDX-License-Identifier: Apache-2.0
import json

import braid


class Verify(braid.Case):
    def comparisons(self, *arguments):
        found = json.loads(self.succeed("verify", *arguments, "--json"))
        for comparison in found:
            self.assertTrue(comparison["ok"], comparison)
        return {comparison["name"]: comparison for comparison in found}

    def check(self, family, device):
        case = braid.GOLDENS / family
        for chunk in (0, 1, 7, 64):
            found = self.comparisons(case, "--device", device, "--chunk", chunk)
            self.assertIn("a.logits", found)
            self.assertIn("b.logits", found)
            self.assertIn("a.layer.0", found)
            self.assertIn("24 of 24", found["a.greedy"]["note"])
            expected, _ = braid.read_safetensors(case / "expected.safetensors")
            for name in ("mtp.logits.1", "mtp.logits.2"):
                self.assertEqual(name in found, name in expected, family)

    def test_layerwise(self):
        for family in braid.FAMILIES:
            for activations in ("f32", "fast"):
                found = self.comparisons(braid.GOLDENS / family, "--device", "cpu", "--layerwise", "--activations", activations)
                self.assertGreater(len(found), 8)

    def test_a_changed_weight_is_noticed(self):
        case = self.copy_model(braid.GOLDENS / "qwen3_next")
        tensors, metadata = braid.read_safetensors(case / "model.safetensors")
        name = "model.layers.0.linear_attn.dt_bias"
        dtype, shape, data = tensors[name]
        tensors[name] = (dtype, shape, b"\x00\x40" + data[2:])  # 2.0 in bf16
        braid.write_safetensors(case / "model.safetensors", tensors, metadata)
        self.fail_in_one_line(["comparisons failed"], "verify", case)

    def test_what_is_no_number_equals_nothing(self):
        case = self.copy_model(braid.GOLDENS / "qwen3_next")
        tensors, metadata = braid.read_safetensors(case / "model.safetensors")
        dtype, shape, data = tensors["model.layers.0.linear_attn.out_proj.weight"]
        tensors["model.layers.0.linear_attn.out_proj.weight"] = (dtype, shape, b"\xc0\x7f" + data[2:])  # NaN in bf16
        braid.write_safetensors(case / "model.safetensors", tensors, metadata)
        for more in ([], ["--layerwise"]):
            code, out, err = braid.run("verify", case, "--json", *more)
            self.assertEqual(code, 1, err)
            found = {comparison["name"]: comparison["ok"] for comparison in json.loads(out)}
            of_logits = [name for name in found if ".logits" in name or "layer 0" in name and "output" in name]
            self.assertGreater(len(of_logits), 1)
            for name in of_logits:
                self.assertFalse(found[name], name)

    def test_expected_may_lie_elsewhere(self):
        case = self.copy_model(braid.GOLDENS / "qwen3")
        (case / "expected.safetensors").rename(self.folder / "elsewhere.safetensors")
        self.fail_in_one_line(["expected.safetensors"], "verify", case)
        self.succeed("verify", case, "--expected", self.folder / "elsewhere.safetensors")


def add(family, device):
    setattr(Verify, f"test_{family.replace('.', '_')}_on_{device}", lambda self: self.check(family, device))


for one in braid.FAMILIES + braid.CODINGS:
    for place in ("reference", "cpu"):
        add(one, place)

if __name__ == "__main__":
    braid.main()
