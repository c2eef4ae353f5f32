# The bundled model: the ten reference chats, the loss on its validation text, and what a user sees of `braid run`.
# SPDX-License-Identifier: Apache-2.0
import json
import math
import unittest

import braid


class Pocket(braid.Case):
    def models(self):
        yield braid.POCKET, braid.GOLDENS / "pocket-fp8"
        if (braid.SHARED / "models" / "pocket").exists():
            yield braid.SHARED / "models" / "pocket", braid.GOLDENS / "pocket"

    def test_chats_exact(self):
        for model, golden in self.models():
            for chat in braid.read_json(golden / "chats.json"):
                self.check_chat(model, chat, ["--activations", "f32"])

    def test_chats_fast(self):
        # The smallest margins of the reference answers are far above what bf16 operands move.
        for model, golden in self.models():
            for chat in braid.read_json(golden / "chats.json"):
                self.check_chat(model, chat, [])

    def check_chat(self, model, chat, options):
        conversation = self.folder / "chat.json"
        braid.write_json(conversation, {"messages": chat["messages"], "tools": chat["tools"],
                                        "enable_thinking": chat.get("enable_thinking")})
        shown = json.loads(self.succeed("run", model, "--messages", conversation, "--temperature", 0, "--json", *options))
        self.assertEqual(shown["prompt"], chat["text"])
        self.assertEqual(shown["prompt_ids"], chat["ids"])
        self.assertEqual(shown["answer_ids"], chat["greedy"])

    def test_loss(self):
        for model, golden in self.models():
            expected = braid.read_json(golden / "valid.json")["nats_per_token"]
            text = braid.GOLDENS / "pocket" / "valid.txt"
            for options, slack in ((["--activations", "f32"], 0.0002), ([], 0.002)):
                found = json.loads(self.succeed("perplexity", model, text, "--json", *options))
                self.assertEqual(found["tokens"], 14799)
                self.assertLess(abs(found["nats_per_token"] - expected), slack, model)

    def test_loss_in_windows_and_against_logits(self):
        text = self.folder / "text.txt"
        documents = (braid.GOLDENS / "pocket" / "valid.txt").read_text(encoding="utf-8").split("\x1e")
        text.write_text("\x1e".join(documents[:12]), encoding="utf-8")
        saved = self.folder / "logits"
        exact = json.loads(self.succeed("perplexity", braid.POCKET, text, "--json", "--activations", "f32", "--save-logits", saved))
        same = json.loads(self.succeed("perplexity", braid.POCKET, text, "--json", "--activations", "f32", "--against", saved))
        self.assertEqual(same["top1_agreement"], 1)
        self.assertLess(same["kl_nats"], 1e-9)
        fast = json.loads(self.succeed("perplexity", braid.POCKET, text, "--json", "--against", saved))
        self.assertGreater(fast["kl_nats"], 0)
        self.assertLess(fast["kl_nats"], 1e-3)
        windows = json.loads(self.succeed("perplexity", braid.POCKET, text, "--json", "--separator", "", "--max-tokens", 256, "--stride", 128))
        self.assertGreater(windows["windows"], 3)
        self.assertTrue(math.isfinite(windows["nats_per_token"]))

    def test_logits_of_something_else(self):
        text, other, saved = (self.folder / name for name in ("text.txt", "other.txt", "logits"))
        text.write_text("a river is a stream of water\x1eone", encoding="utf-8")
        other.write_text("a river is a stream of wine\x1eone", encoding="utf-8")
        ask = ["perplexity", braid.POCKET, text]
        self.succeed(*ask, "--save-logits", saved)
        good = saved.read_bytes()

        def check(fragments, *arguments):
            self.fail_in_one_line(fragments, *arguments, "--against", saved)

        check(["logits", "--max-tokens 1024", "and these are 5"], *ask, "--max-tokens", 5)
        check(["logits", "--stride 0", "and 4 here"], *ask, "--stride", 4)
        check(["logits", "another text"], "perplexity", braid.POCKET, other)
        check(["logits", "another text"], *ask, "--separator", "x")
        self.fail_in_one_line(["text.txt", "not a file of logits"], *ask, "--against", text)
        self.fail_in_one_line(["nothing"], *ask, "--against", self.folder / "nothing")
        for at, fragments in ((8, ["version"]), (12, ["head is damaged"]), (30, ["head is damaged"]), (60, ["head is damaged"]), (1000, ["row 0 is damaged"]),
                              (len(good) - 1, ["damaged"])):
            saved.write_bytes(good[:at] + bytes([good[at] ^ 1]) + good[at + 1:])
            check(["logits", *fragments], *ask)
        for cut in (0, 20, 60, len(good) - 1):
            saved.write_bytes(good[:cut])
            check(["logits"], *ask)

    def test_the_answer_of_the_readme(self):
        out = self.succeed("run", braid.POCKET, 'What does "river" mean?', "--temperature", 0)
        self.assertTrue(out.startswith("river (noun): a large natural stream of water (larger than a creek)."), out)

    def test_seeds_repeat_draws(self):
        ask = ["run", braid.POCKET, "Tell me about a dog.", "--temperature", 1.5, "--top-k", 0, "--top-p", 1, "--max-tokens", 30]
        first = self.succeed(*ask, "--seed", 7)
        self.assertEqual(first, self.succeed(*ask, "--seed", 7))
        self.assertNotEqual(first, self.succeed(*ask, "--seed", 8))

    def test_chat_keeps_history_and_resets(self):
        code, out, err = braid.run("run", braid.POCKET, "--temperature", 0, "--stats",
                                   text='What does "river" mean?\n/reset\nWhat does "guitar" mean?\n')
        self.assertEqual(code, 0, err)
        self.assertIn("river (noun)", out)
        self.assertIn("guitar (noun)", out)
        self.assertEqual(err.count("prefill"), 2)

    def test_a_piped_chat_that_failed_says_so(self):
        code, out, err = braid.run("run", braid.POCKET, "--context", 60, "--temperature", 0,
                                   text="hello\n" + "word " * 100 + "\n/reset\nhello\n")
        self.assertEqual(code, 1, err)
        self.assertEqual(len(err.splitlines()), 1, err)
        self.assertIn("/reset", err)

    def test_commands_of_a_chat(self):
        _, expected, _ = braid.run("run", braid.POCKET, "--temperature", 0, text="hello\n")
        code, out, err = braid.run("run", braid.POCKET, "--temperature", 0, text="/nope\nhello\n")
        self.assertEqual((code, out), (0, expected), err)
        self.assertIn("/nope is no command", err)
        asked = braid.run("run", braid.POCKET, "--temperature", 0, "--stats", text=" /nope\n/usr/bin\n")[2]
        self.assertEqual(asked.count("prefill"), 2, asked)

    def test_a_full_context_points_to_reset(self):
        code, out, err = braid.run("run", braid.POCKET, "--context", 40, "--temperature", 0, "--stop", "zzz", text='What does "river" mean?\n')
        self.assertIn("context of 40 tokens is full; /reset", err)

    def test_marks_hold_no_stop(self):
        ask = ("run", braid.POCKET, "Spell banana.", "--temperature", 0)
        expected = self.succeed(*ask)
        for stop in ("n", "hin", "/think", "<"):
            self.assertEqual(self.succeed(*ask, "--stop", stop), expected, stop)
        self.assertEqual(self.succeed(*ask, "--stop", "</think>").strip(), "")

    def test_thoughts_are_shown_unless_empty(self):
        out = self.succeed("run", braid.POCKET, "What is 12 + 30?", "--temperature", 0)
        self.assertIn("42", out)
        self.assertNotIn("think>", out)
        out = self.succeed("run", braid.POCKET, 'What does "river" mean?', "--temperature", 0, "--think", "off")
        self.assertNotIn("think>", out)
        self.assertFalse(out.startswith("\n"), out)

    def test_prompts_come_from_files_and_standard_input(self):
        file = self.folder / "prompt.txt"
        file.write_text('What does "river" mean?', encoding="utf-8")
        expected = self.succeed("run", braid.POCKET, 'What does "river" mean?', "--temperature", 0)
        self.assertEqual(self.succeed("run", braid.POCKET, "--file", file, "--temperature", 0), expected)
        self.assertEqual(self.succeed("run", braid.POCKET, "-", "--temperature", 0, text='What does "river" mean?'), expected)

    def test_answers_end_with_a_reason(self):
        ask = ["run", braid.POCKET, 'What does "river" mean?', "--temperature", 0]
        code, out, err = braid.run(*ask, "--max-tokens", 3)
        self.assertEqual((code, "stopped after 3 tokens" in err), (0, True), err)
        code, out, err = braid.run(*ask, "--context", 30)
        self.assertEqual((code, "the context of 30 tokens is full" in err), (0, True), err)
        out = self.succeed(*ask, "--stop", "natural")
        self.assertEqual(out, "river (noun): a large \n")

    def test_a_model_without_a_template_completes_and_says_so(self):
        model = self.copy_model(braid.POCKET)
        (model / "chat_template.jinja").unlink()
        config = braid.read_json(model / "tokenizer_config.json")
        config.pop("chat_template", None)
        braid.write_json(model / "tokenizer_config.json", config)
        code, out, err = braid.run("run", model, "river (noun): a large", "--temperature", 0, "--max-tokens", 8)
        self.assertEqual(code, 0, err)
        self.assertIn("no chat template", err)
        self.fail_in_one_line(["no chat template"], "run", model, text="hello\n")
        out = self.succeed("run", model, 'What does "river" mean?', "--temperature", 0, "--chat-template", braid.POCKET / "chat_template.jinja")
        self.assertIn("river (noun)", out)

    def test_padded_rows_of_the_vocabulary_are_never_sampled(self):
        # Biases that make ids without a token by far the most likely ones.
        bias = [f"--logit-bias={i}=1000" for i in (6121, 6130, 6143)]
        shown = json.loads(self.succeed("run", braid.POCKET, "hello", "--max-tokens", 20, "--seed", 1, "--json", *bias))
        self.assertTrue(shown["answer_ids"])
        self.assertLess(max(shown["answer_ids"]), 6121)

    def test_describe_needs_the_config_alone(self):
        whole = json.loads(self.succeed("describe", braid.POCKET, "--json"))
        folder = self.folder / "config-only"
        folder.mkdir()
        (folder / "config.json").write_bytes((braid.POCKET / "config.json").read_bytes())
        alone = json.loads(self.succeed("describe", folder, "--json"))
        for key in ("parameters", "formats", "weight_bytes", "state_bytes_per_token", "state_bytes_per_sequence", "spec"):
            self.assertEqual(whole[key], alone[key], key)
        self.assertEqual(whole["parameters"], 16023600)
        # 6 delta net layers: 4 heads of 128 x 128 f32 and 3 rows of 1024 f32; 2 + 1 attention layers: 2 x 256 bf16 a token.
        self.assertEqual(whole["state_bytes_per_sequence"], 6 * (4 * 128 * 128 * 4 + 3 * 1024 * 4))
        self.assertEqual(whole["state_bytes_per_token"], 3 * 2 * 256 * 2)

    def test_bench_repeats_its_hash(self):
        results = []
        for name in ("a.json", "b.json"):
            self.succeed("bench", braid.POCKET, "--prefill", 64, "--decode", 8, "--repeats", 1, "--contexts", "128",
                         "--out", self.folder / name, "--svg", self.folder / "plot.svg")
            results.append(braid.read_json(self.folder / name))
        self.assertEqual(results[0]["hash"], results[1]["hash"])
        self.assertEqual([row["kind"] for row in results[0]["rows"]], ["prefill", "decode", "decode"])
        self.assertIn("the same greedy tokens", self.succeed("bench", self.folder / "a.json", self.folder / "b.json"))
        self.assertTrue((self.folder / "plot.svg").read_text().startswith("<svg"))
        results[1]["subject"]["threads"] += 1
        braid.write_json(self.folder / "b.json", results[1])
        self.fail_in_one_line(["differ in threads"], "bench", self.folder / "a.json", self.folder / "b.json")

    @unittest.skipUnless((braid.SHARED / "models" / "pocket").exists(), "the BF16 pocket is not beside the project")
    def test_bf16_pocket_is_there(self):
        self.succeed("describe", braid.SHARED / "models" / "pocket")


if __name__ == "__main__":
    braid.main()
