# Wrong values and wrong pairs of options end with exit code 2 and one line that names the flag.
# SPDX-License-Identifier: Apache-2.0
import json
import re

import braid


class Options(braid.Case):
    def refuse(self, fragments, *arguments, **options):
        self.fail_in_one_line(fragments, *arguments, code=2, **options)

    def test_an_empty_value_is_no_value(self):
        for flag in ("--temperature", "--top-k", "--top-p", "--min-p", "--repetition-penalty", "--frequency-penalty", "--presence-penalty",
                     "--logit-bias", "--seed", "--max-tokens", "--stop", "--device", "--threads", "--activations", "--kv-dtype", "--context",
                     "--chat-template", "--rope-scaling", "--system", "--think"):
            self.refuse([flag, "empty"], "run", braid.POCKET, "hello", flag, "")
        for flag in ("--file", "--messages", "--ids"):
            self.refuse([flag, "empty"], "run", braid.POCKET, flag, "")
        self.refuse(["--out"], "bench", braid.POCKET, "--out", "")
        self.refuse(["--against"], "perplexity", braid.POCKET, "text", "--against", "")
        self.refuse(["FILE"], "perplexity", braid.POCKET, "")
        self.refuse(["--expected"], "verify", braid.POCKET, "--expected", "")
        self.refuse(["MODEL"], "describe", "")
        self.refuse(["--log"], "--log", "", "describe", braid.POCKET)

    def test_global_options_stand_anywhere(self):
        shape = braid.SOURCE / "bench" / "shapes" / "qwen3.5-0.8b"

        def described(*arguments):
            code, out, err = braid.run(*arguments)
            return code, re.sub(r"[\d.]+ GB available here.*", "", out), err  # which changes from one run to the next

        plain = described("describe", shape)
        self.assertEqual(plain[0], 0, plain)
        for arguments in (["--log", "off", "describe", shape], ["describe", "--log", "off", shape], ["describe", shape, "--log", "off"],
                          ["describe", shape, "--log=off"]):
            self.assertEqual(described(*arguments), (0, plain[1], ""), arguments)
        for arguments in (["run", braid.POCKET, "hello", "--log", "loud"], ["run", braid.POCKET, "hello", "--log", ""]):
            self.refuse(["log" if arguments[-1] else "--log"], *arguments)
        debug = braid.run("run", braid.POCKET, "hello", "--max-tokens", 1, "--log", "debug")
        self.assertEqual(debug[0], 0)
        self.assertIn("debug ", debug[2])
        for command in ("run", "serve", "bench", "verify", "perplexity", "tokenize", "describe"):
            self.assertEqual(self.succeed(command, "--version"), self.succeed("--version"))
        # What no command knows stays a fault, and a command is no argument of another.
        self.refuse(["--loog"], "describe", braid.POCKET, "--loog", "off")
        self.refuse(["describe"], "tokenize", braid.POCKET, "hello", "describe")

    def test_numbers_out_of_range(self):
        for flag, values in (("--temperature", ["-1", "nan", "inf", "1e99", "warm"]), ("--top-k", ["-1", "1.5", "99999999999"]),
                             ("--top-p", ["-0.1", "2", "nan"]), ("--min-p", ["-0.1", "2", "nan"]),
                             ("--repetition-penalty", ["0", "-1", "nan", "inf"]), ("--frequency-penalty", ["nan", "inf", "-inf"]),
                             ("--presence-penalty", ["nan", "inf", "x"]), ("--seed", ["-1", "1.5", "x", "18446744073709551616"])):
            for value in values:
                self.refuse([flag, value], "run", braid.POCKET, "hello", f"{flag}={value}")
                if flag != "--seed":
                    self.refuse([flag, value], "serve", braid.POCKET, f"{flag}={value}")

    def test_biases(self):
        for bias, fragment in (("5", "ID=BIAS"), ("5=nan", "a number or -inf after '='"), ("5=", "a number or -inf after '='"),
                               ("5=inf", "a number or -inf after '='"), ("-1=1", "a token id below"), ("x=1", "a token id below"),
                               ("9999999=1", "a token id below"), ("=1", "a token id below")):
            self.refuse([f"--logit-bias '{bias}'", fragment], "run", braid.POCKET, "hello", f"--logit-bias={bias}")
        self.succeed("run", braid.POCKET, "hello", "--max-tokens", 1, "--logit-bias", "5=-inf", "--logit-bias", "6=2.5")

    def test_options_that_exclude_each_other(self):
        messages = self.folder / "messages.json"
        braid.write_json(messages, [{"role": "user", "content": "hello"}])
        template = braid.POCKET / "chat_template.jinja"
        for arguments in (["hello", "--file", messages], ["hello", "--messages", messages], ["hello", "--ids", "5"],
                          ["hello", "--raw", "--system", "x"], ["hello", "--raw", "--think", "on"], ["hello", "--raw", "--chat-template", template],
                          ["--ids", "5", "--system", "x"], ["--ids", "5", "--think", "on"],
                          ["--ids", "5", "--chat-template", template], ["--messages", messages, "--raw"], ["--messages", messages, "--system", "x"],
                          ["--messages", messages, "--ids", "5"], ["--messages", messages, "--file", messages]):
            self.refuse(["excludes"], "run", braid.POCKET, *arguments)
        for flag in ("--json", "--raw"):
            self.refuse([flag, "prompt"], "run", braid.POCKET, flag, text="hello\n")
        self.refuse(["excludes"], "bench", "before.json", "after.json", "--threads", 1)
        self.refuse(["excludes"], "bench", "--shape", "qwen3.5-0.8b", "--svg", "x")
        self.refuse(["--batches", "needs"], "bench", braid.POCKET, "--batches", "1")
        self.refuse(["excludes"], "tokenize", braid.POCKET, "hello", "--file", messages)
        self.refuse(["TEXT"], "tokenize", braid.POCKET)

    def test_thinking_is_switched_in_conversations_too(self):
        messages = self.folder / "messages.json"
        braid.write_json(messages, [{"role": "user", "content": "hello"}])
        prompts = [self.succeed("run", braid.POCKET, "--messages", messages, "--think", think, "--json", "--max-tokens", 1) for think in ("on", "off")]
        self.assertNotEqual(*prompts)

    def test_a_prompt_that_begins_with_a_dash(self):
        self.refuse(["-five", "given after --"], "run", braid.POCKET, "-five + 3")
        self.assertEqual(self.succeed("run", braid.POCKET, "--temperature", 0, "--max-tokens", 5, "--", "-five + 3"),
                         self.succeed("run", braid.POCKET, "-", "--temperature", 0, "--max-tokens", 5, text="-five + 3"))
        self.assertEqual(self.succeed("tokenize", braid.POCKET, "--", "-5"), self.succeed("tokenize", braid.POCKET, "-", text="-5"))

    def test_rope_scaling(self):
        def check(scaling, *fragments):
            self.refuse(["--rope-scaling", *fragments], "describe", braid.POCKET, "--rope-scaling", scaling)

        check("7", "object")
        check("{", "not valid JSON")
        check("{}", "'rope_type' is missing")
        check('{"factor": 2}', "'rope_type' is missing")
        check('{"rope_type": "magic"}', "'rope_type'", "magic", "yarn")
        check('{"rope_type": 5}', "'rope_type'")
        check('{"type": "yarn"}', "'factor' is missing")
        check('{"type": "yarn", "factor": -2}', "'factor'", "-2")
        check('{"type": "yarn", "factor": "x"}', "'factor'")
        check('{"type": "yarn", "factor": 2, "beta_fats": 3}', "'beta_fats' is not known to type 'yarn'", "beta_fast")
        check('{"type": "yarn", "factor": 2, "beta_fast": 1, "beta_slow": 32}', "'beta_fast'", "beta_slow")
        check('{"type": "yarn", "factor": 2, "mscale": -1}', "'mscale'")
        check('{"type": "linear", "factor": 2, "rope_theta": 5}', "'rope_theta'")
        check('{"type": "llama3", "factor": 2, "original_max_position_embeddings": 64, "low_freq_factor": 4, "high_freq_factor": 1}',
              "'high_freq_factor'", "low_freq_factor")
        self.succeed("describe", braid.POCKET, "--rope-scaling", '{"rope_type": "yarn", "factor": 2, "beta_fast": 32, "beta_slow": 1}')
        self.succeed("describe", braid.POCKET, "--rope-scaling", '{"type": "default"}')

    def test_scaling_stretches_the_context(self):
        def context(scaling, model=braid.POCKET):
            override = ["--rope-scaling", json.dumps(scaling)] if scaling else []
            return int(re.search(r"one sequence of (\d+) tokens fits", self.succeed("describe", model, *override))[1])

        yarn, original = {"rope_type": "yarn", "factor": 4}, {"original_max_position_embeddings": 4096}
        linear = {"rope_type": "linear", "factor": 1.5}
        self.assertEqual(context(None), 8192)
        self.assertEqual(context(yarn), 32768)
        self.assertEqual(context(yarn | original), 16384)
        self.assertEqual(context(yarn | original | {"factor": 1.5}), 8192)  # never below the config's own
        self.assertEqual(context(linear), 12288)
        for scaling, expected in ((yarn | original, 16384), (yarn, 8192), (linear, 8192)):
            model = self.copy_model(braid.POCKET, f"model-{len(list(self.folder.iterdir()))}")
            config = braid.read_json(model / "config.json")
            config["rope_parameters"] |= scaling
            braid.write_json(model / "config.json", config)
            self.assertEqual(context(None, model), expected, scaling)


if __name__ == "__main__":
    braid.main()
