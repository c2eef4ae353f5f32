# braid bench --shape: random weights of a config alone, over a grid of batches and contexts.
# SPDX-License-Identifier: Apache-2.0
import json
import subprocess

import braid

CONFIG = {
    "model_type": "qwen3_5_moe_text", "dtype": "bfloat16", "vocab_size": 500, "hidden_size": 128, "num_hidden_layers": 8,
    "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 32, "rms_norm_eps": 1e-6, "hidden_act": "silu",
    "max_position_embeddings": 4096, "attn_output_gate": True, "full_attention_interval": 4, "linear_num_key_heads": 2,
    "linear_num_value_heads": 4, "linear_key_head_dim": 32, "linear_value_head_dim": 32, "linear_conv_kernel_dim": 4,
    "num_experts": 8, "num_experts_per_tok": 2, "moe_intermediate_size": 64, "shared_expert_intermediate_size": 64,
    "rope_parameters": {"rope_type": "default", "rope_theta": 10000, "partial_rotary_factor": 0.25}}


class Shape(braid.Case):
    def grid(self, *options):
        return json.loads(self.succeed(*self.command("--json", *options)[1:]))

    def test_grid(self):
        for form in ("bf16", "f32", "fp8_block"):
            found = self.grid("--format", form, "--batches", "1,3", "--contexts", "5,100", "--prompts", "20", "--profile")
            self.assertEqual([(c["kind"], c["batch"], c["context"]) for c in found["cells"]],
                             [("decode", 1, 5), ("decode", 3, 5), ("decode", 1, 100), ("decode", 3, 100), ("prefill", 1, 20)])
            self.assertEqual(found["subject"]["format"], form)
            for cell in found["cells"]:
                self.assertGreater(cell["tokens_per_s"], 0)
                self.assertGreater(cell["gb"], 0)
                self.assertIn("delta_rule", [row["op"] for row in cell["profile"]])

    def command(self, *options):
        folder = self.folder / "shape"
        folder.mkdir(exist_ok=True)
        braid.write_json(folder / "config.json", CONFIG)
        return [str(braid.BINARY / "braid"), "bench", "--shape", str(folder), "--device", "cpu", *options]

    def test_each_cell_is_told_as_it_ends(self):
        # The second cell takes so long that the first one's line is there before it.
        process = subprocess.Popen(self.command("--batches", "1", "--contexts", "5", "--prompts", "4000", "--threads", "1"),
                                   stdout=subprocess.PIPE, text=True)
        lines = [process.stdout.readline() for _ in range(3)]
        self.assertIsNone(process.poll(), lines)
        self.assertTrue(lines[0].startswith("limits: "), lines)
        self.assertEqual(lines[1].split()[:3], ["kind", "batch", "context"])
        self.assertEqual(lines[2].split()[:3], ["decode", "1", "5"])
        rest = process.communicate(timeout=120)[0].splitlines()
        self.assertEqual([line.split()[:3] for line in rest], [["prefill", "1", "4000"]])

    def test_a_terminal_sees_what_is_measured(self):
        code, text = braid.run_on_terminal(*self.command("--batches", "1,2", "--contexts", "5", "--prompts", "30")[1:])
        self.assertEqual(code, 0, text)
        for title in ("bench decode 1 at 5 [", "bench decode 2 at 5 [", "bench prefill 30 ["):
            self.assertIn(title, text)
        # Every line is printed where the bar was wiped, and nothing is left of it at the end.
        for line in text.split("\r\n")[:-1]:
            self.assertNotIn("[", line.rpartition("\r\x1b[K")[2], line)
        self.assertTrue(text.endswith(("\n", "\r\x1b[K")), text[-80:])

    def test_repeats(self):
        options = ("--batches", "3", "--contexts", "40", "--prompts", "70")
        first, second = self.grid(*options), self.grid(*options)
        self.assertEqual([c["hash"] for c in first["cells"]], [c["hash"] for c in second["cells"]])

    def test_bytes_grow_with_layers_and_batch(self):
        options = ("--contexts", "40", "--prompts", "8")
        four = self.grid("--layers", "4", "--batches", "1", *options)
        eight = self.grid("--batches", "1,4", *options)
        self.assertEqual((four["subject"]["layers"], eight["subject"]["layers"]), (4, 8))
        self.assertGreater(eight["cells"][0]["gb"], 1.5 * four["cells"][0]["gb"])
        self.assertGreater(eight["cells"][1]["gb"], eight["cells"][0]["gb"])

    def test_refusals(self):
        self.fail_in_one_line(["--shape", "no-such-shape"], "bench", "--shape", "no-such-shape")
        self.fail_in_one_line(["--format", "q9"], "bench", "--shape", "qwen3.5-0.8b", "--format", "q9", code=2)
        self.fail_in_one_line(["--shape", "MODEL"], "bench", "some", "--shape", "qwen3.5-0.8b", code=2)
        self.fail_in_one_line(["MODEL"], "bench", code=2)


if __name__ == "__main__":
    braid.main()
