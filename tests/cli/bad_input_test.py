# Bad input ends in one clear line that names the file, tensor or key, with exit code 1 (2 for wrong usage), and never a crash.
# SPDX-License-Identifier: Apache-2.0
import json
import os
import struct
import unittest

import braid


class BadInput(braid.Case):
    def case(self, family="qwen3_5"):
        return self.copy_model(braid.GOLDENS / family, f"case-{len(list(self.folder.iterdir()))}")

    def test_safetensors(self):
        good = (braid.GOLDENS / "qwen3" / "model.safetensors").read_bytes()
        length = struct.unpack("<Q", good[:8])[0]
        header = json.loads(good[8:8 + length])

        def with_header(change):
            changed = json.loads(json.dumps(header))
            changed = change(changed) or changed
            text = json.dumps(changed).encode()
            return struct.pack("<Q", len(text)) + text + good[8 + length:]

        def set_tensor(**fields):
            return with_header(lambda h: h["model.norm.weight"].update(fields))

        begin, end = header["model.norm.weight"]["data_offsets"]
        cases = [
            (b"", []), (good[:7], []), (good[:100], []), (good[:-1], []), (good + b"x", []),
            (struct.pack("<Q", 2**63) + good[8:], []), (struct.pack("<Q", len(good)) + good[8:], []),
            (struct.pack("<Q", 0) + good[8:], []), (good[:8] + b"[" + good[9:], []), (good[:8] + b"\xff" * length + good[8 + length:], []),
            (with_header(lambda h: [1, 2]), []),
            (set_tensor(dtype="F13"), ["model.norm.weight", "F13"]), (set_tensor(dtype=7), ["model.norm.weight"]),
            (set_tensor(shape=[65]), ["model.norm.weight"]), (set_tensor(shape=[-64]), ["model.norm.weight"]),
            (set_tensor(shape=[2**62, 2**62]), ["model.norm.weight"]), (set_tensor(shape="x"), ["model.norm.weight"]),
            (set_tensor(shape=[1.5]), ["model.norm.weight"]),
            (set_tensor(data_offsets=[begin, end + 2**40]), ["model.norm.weight"]), (set_tensor(data_offsets=[end, begin]), ["model.norm.weight"]),
            (set_tensor(data_offsets=[0, end - begin]), []), (set_tensor(data_offsets=[begin]), ["model.norm.weight"]),
            (set_tensor(data_offsets=[-1, end]), ["model.norm.weight"]),
            (with_header(lambda h: h.pop("model.norm.weight") and None), []),
        ]
        for i, (data, fragments) in enumerate(cases):
            with self.subTest(i):
                case = self.case("qwen3")
                (case / "model.safetensors").write_bytes(data)
                self.fail_in_one_line(["model.safetensors", *fragments], "verify", case)

    def test_tensors_that_do_not_fit(self):
        tensors, metadata = braid.read_safetensors(braid.GOLDENS / "qwen3_5" / "model.safetensors")

        def check(change, fragments):
            case, changed = self.case(), dict(tensors)
            change(changed)
            braid.write_safetensors(case / "model.safetensors", changed, metadata)
            self.fail_in_one_line(fragments, "verify", case)

        name = "model.layers.0.mlp.gate_proj.weight"
        dtype, shape, data = tensors[name]
        check(lambda t: t.pop(name), [name])
        check(lambda t: t.update({name: (dtype, shape[::-1], data)}), [name, "[128, 64]", "[64, 128]"])
        check(lambda t: t.update({name: ("F8_E4M3", shape, data[::2])}), [name, "weight_scale_inv"])
        check(lambda t: t.update({name: ("I32", [shape[0], shape[1] // 2], data)}), [name])
        check(lambda t: t.update({"model.layers.9.mlp.extra.weight": t[name]}), ["model.layers.9.mlp.extra.weight"])
        norm = "model.layers.0.input_layernorm.weight"
        check(lambda t: t.update({norm: ("BF16", [64], b"\xc0\x7f" * 64)}), [norm])

    def test_configs(self):
        def check(change, fragments, family="qwen3_5"):
            case = self.case(family)
            config = braid.read_json(case / "config.json")
            changed = change(config)
            braid.write_json(case / "config.json", config if changed is None else changed)
            self.fail_in_one_line(["config.json", *fragments], "verify", case)

        check(lambda c: c.update(model_type="mamba99"), ["mamba99", "qwen3_next"])
        check(lambda c: c.pop("model_type") and None, ["model_type"])
        check(lambda c: [c], [])
        check(lambda c: c.update(hidden_size=-5), ["hidden_size"])
        check(lambda c: c.update(hidden_size=0), ["hidden_size"])
        check(lambda c: c.update(hidden_size=2**40), ["hidden_size"])
        check(lambda c: c.update(hidden_size="64"), ["hidden_size"])
        check(lambda c: c.update(hidden_size=None), ["hidden_size"])
        check(lambda c: c.update(num_hidden_layers=10**9), ["num_hidden_layers"])
        check(lambda c: c.update(num_experts=10**9), ["num_experts"], "qwen3_5_moe")
        check(lambda c: c.update(head_dim=10**9), ["head_dim"])
        check(lambda c: c.update(mtp_num_hidden_layers=10**9), ["mtp_num_hidden_layers"])
        check(lambda c: c.update(rms_norm_eps=-1), ["rms_norm_eps"])
        check(lambda c: c.update(hidden_act="gelu"), ["hidden_act", "gelu"])
        check(lambda c: c.update(attention_bias=True), ["attention_bias"])
        check(lambda c: c.update(layer_types=["full_attention"]), ["layer_types"])
        check(lambda c: c.update(layer_types=["x"] * 4), ["layer_types", "'x'"])
        check(lambda c: c.update(layer_types=7), ["layer_types"])
        check(lambda c: c.update(num_key_value_heads=3), ["num_key_value_heads"])
        check(lambda c: c.update(linear_num_value_heads=5), ["linear_num_value_heads"])
        check(lambda c: c["rope_parameters"].update(rope_type="magic"), ["magic"])
        check(lambda c: c["rope_parameters"].update(mrope_section=[1]), ["mrope_section"])
        check(lambda c: c["rope_parameters"].update(mrope_section=["a"]), ["mrope_section"])
        check(lambda c: c["rope_parameters"].update(rope_type=5), ["rope_type"])
        check(lambda c: c["rope_parameters"].update(rope_theta="x"), ["rope_theta"])
        check(lambda c: c["rope_parameters"].update(partial_rotary_factor=1.7), ["partial_rotary_factor"])
        check(lambda c: c["rope_parameters"].update(partial_rotary_factor=None) or c.update(partial_rotary_factor=-1),
              ["config.json: 'partial_rotary_factor'", "between 0 and 1, found -1"])
        check(lambda c: c.update(rope_parameters=[1]), ["rope_parameters"])
        check(lambda c: c.update(quantization_config={"quant_method": "awq"}), ["config.json: quantization_config", "awq"])
        check(lambda c: c.update(dtype="int8"), ["config.json: dtype", "int8"])
        check(lambda c: c.update(num_experts_per_tok=99), ["num_experts_per_tok"], "qwen3_5_moe")
        case = self.case()
        config = braid.read_json(case / "config.json")
        braid.write_json(case / "config.json", config | {"vocab_size": 2**24})
        self.fail_in_one_line(["embed_tokens", "16777216"], "verify", case)
        (case / "config.json").write_text("{", encoding="utf-8")
        self.fail_in_one_line(["config.json"], "verify", case)
        (case / "config.json").unlink()
        self.fail_in_one_line(["config.json"], "verify", case)
        (case / "config.json").mkdir()
        self.fail_in_one_line(["config.json"], "verify", case)

    def test_describe_refuses_what_run_refuses(self):
        sizes = ["hidden_size", "vocab_size", "num_hidden_layers", "num_attention_heads", "num_key_value_heads", "head_dim", "intermediate_size",
                 "max_position_embeddings"]
        hybrid = ["linear_num_key_heads", "linear_num_value_heads", "linear_key_head_dim", "linear_value_head_dim", "linear_conv_kernel_dim",
                  "full_attention_interval"]
        moe = ["num_experts", "num_experts_per_tok", "moe_intermediate_size", "shared_expert_intermediate_size", "mtp_num_hidden_layers"]
        for family, keys in (("qwen3", sizes), ("qwen3_5", [*sizes, *hybrid]), ("qwen3_next", [*sizes, *hybrid, *moe])):
            for key in keys:
                zero = [] if key in ("shared_expert_intermediate_size", "mtp_num_hidden_layers") else [0]
                for value in (-1, *zero, 2**40, 1.5, "x"):
                    self.describe_refuses(family, key, value)
        for key, value in (("sliding_window", -4), ("max_window_layers", -1), ("eos_token_id", "x"), ("eos_token_id", -1), ("eos_token_id", [[]])):
            self.describe_refuses("qwen3", key, value)

    def describe_refuses(self, family, key, value):
        folder = self.folder / "alone"
        folder.mkdir(exist_ok=True)
        braid.write_json(folder / "config.json", braid.read_json(braid.GOLDENS / family / "config.json") | {key: value})
        with self.subTest(f"{family} {key} {value}"):
            self.fail_in_one_line(["config.json", key], "describe", folder)

    def test_conversations(self):
        def check(content, *fragments):
            self.fail_in_one_line(["talk.json", *fragments], "run", braid.POCKET, "--messages", self.write("talk.json", content))

        check("7", "messages")
        check("{}", "messages")
        check('{"tools": []}', "messages")
        check("[]", "messages", "at least one")
        check("[{}]", "messages[0].role: missing")
        check('[{"role": 5, "content": "x"}]', "messages[0].role")
        check('[{"role": "user", "content": "x"}, {"role": "user", "content": 5}]', "messages[1].content")
        check('{"messages": [{"role": "user", "content": "x"}], "tools": [null]}', "tools[0]")
        check('{"messages": [{"role": "user", "content": "x"}], "tools": {}}', "tools")
        check('[{"role": "assistant", "tool_calls": [{"function": {}}]}]', "messages[0].tool_calls[0].function.name")

    def test_missing_things(self):
        case = self.case()
        (case / "model.safetensors").unlink()
        self.fail_in_one_line([str(case)], "verify", case)
        self.fail_in_one_line(["nowhere"], "verify", self.folder / "nowhere")
        empty = self.folder / "empty"
        empty.mkdir()
        self.fail_in_one_line(["config.json"], "run", empty, "hello")
        case = self.case()
        (case / "model.safetensors").unlink()
        braid.write_json(case / "model.safetensors.index.json", {"weight_map": {"a": "gone.safetensors"}})
        self.fail_in_one_line(["gone.safetensors"], "verify", case)
        braid.write_json(case / "model.safetensors.index.json", {"weight_map": {"a": "../../etc/passwd"}})
        self.fail_in_one_line(["passwd"], "verify", case)

    def test_tokenizers_and_templates(self):
        def check(file, change, fragments):
            model = self.copy_model(braid.POCKET, f"model-{len(list(self.folder.iterdir()))}")
            change(model / file)
            self.fail_in_one_line(fragments, "run", model, "hello", "--max-tokens", 1)

        def edit(path, key, value):
            content = braid.read_json(path)
            content[key] = value
            braid.write_json(path, content)

        check("tokenizer.json", lambda p: p.write_text("{}"), ["tokenizer.json"])
        check("tokenizer.json", lambda p: p.write_bytes(b"\xff\xfe"), ["tokenizer.json"])
        check("tokenizer.json", lambda p: edit(p, "normalizer", {"type": "Strange"}), ["tokenizer.json", "Strange"])
        check("tokenizer.json", lambda p: edit(p, "pre_tokenizer", {"type": "Strange"}), ["tokenizer.json", "Strange"])
        check("tokenizer.json", lambda p: edit(p, "model", {"type": "Unigram", "vocab": []}), ["tokenizer.json", "Unigram"])
        check("chat_template.jinja", lambda p: p.write_text("{% for x in %}"), ["chat template", "1"])
        check("chat_template.jinja", lambda p: p.write_text("\n{{ raise_exception('no such luck') }}"), ["no such luck"])
        check("chat_template.jinja", lambda p: p.write_text("{{ messages[0].nothing.more }}"), ["chat template"])
        check("generation_config.json", lambda p: p.write_text('{"temperature": "hot"}'), ["generation_config.json", "temperature"])
        check("tokenizer_config.json", lambda p: p.write_text('{"eos_token": 5}'), ["eos_token"])

    def test_files_are_no_models(self):
        gguf = self.write("model.gguf", "GGUF")
        for command in (["run", gguf, "hello"], ["describe", gguf], ["tokenize", gguf, "hello"]):
            self.fail_in_one_line(["model.gguf", "is a file", "GGUF"], *command)
        self.fail_in_one_line(["model.safetensors", "is a file"], "run", braid.POCKET / "model.safetensors", "hello")

    def test_weights_that_are_not_numbers(self):
        model = self.copy_model(braid.POCKET)
        tensors, _ = braid.read_safetensors(model / "model.safetensors")
        name = "model.layers.0.linear_attn.in_proj_qkv.weight"
        dtype, shape, data = tensors[name]
        self.assertEqual(dtype, "F8_E4M3")
        tensors[name] = dtype, shape, b"\x7f" + data[1:]  # NaN
        braid.write_safetensors(model / "model.safetensors", tensors)
        text = self.write("text.txt", "a river is a stream of water")
        small = ["--prefill", 8, "--decode", 2, "--repeats", 1]
        for arguments in (["run", model, "hello"], ["perplexity", model, text], ["bench", model, *small]):
            self.fail_in_one_line([f"{name}: value nan at index 0 is not finite (in {model}/model.safetensors)"], *arguments)
        # Nothing stored is to blame.
        biases = [word for token in range(braid.read_json(braid.POCKET / "config.json")["vocab_size"])
                  for word in ("--logit-bias", f"{token}=-inf")]
        self.fail_in_one_line(["no token can be drawn"], "run", braid.POCKET, "hello", *biases)

    def test_a_folder_without_a_tokenizer(self):
        model = self.copy_model(braid.POCKET)
        (model / "tokenizer.json").unlink()
        self.fail_in_one_line(["tokenizer.json", "--ids"], "run", model, "hello")

    def test_a_vocabulary_that_lacks_bytes(self):
        model = self.copy_model(braid.POCKET)
        tokenizer = braid.read_json(model / "tokenizer.json")
        tokenizer["model"]["vocab"]["Q?"] = tokenizer["model"]["vocab"].pop("Q")
        tokenizer["model"]["merges"] = [pair for pair in tokenizer["model"]["merges"] if "Q" not in "".join(pair)]
        braid.write_json(model / "tokenizer.json", tokenizer)
        code, _, err = braid.run("tokenize", model, "Qua")
        self.assertEqual((code, err), (0, "warning tokenizer bytes_without_token=1: text loses them\n"))
        self.assertEqual(braid.run("tokenize", braid.POCKET, "Qua")[2], "")

    def test_pictures(self):
        picture = [{"role": "user", "content": ["look", {"type": "image_url", "image_url": {"url": "x"}}]}]
        file = self.write("picture.json", json.dumps(picture))
        self.fail_in_one_line(["picture.json: messages[0].content[1].type", "image_url"], "run", braid.POCKET, "--messages", file)

    def test_prompts(self):
        self.fail_in_one_line(["context", "20"], "run", braid.POCKET, "word " * 50, "--context", 20)
        self.fail_in_one_line(["empty"], "run", braid.POCKET, "", "--raw")
        self.fail_in_one_line(["empty"], "run", braid.POCKET, "")
        self.fail_in_one_line(["nothing.txt"], "run", braid.POCKET, "--file", self.folder / "nothing.txt")
        self.fail_in_one_line(["standard input: the prompt is empty"], "run", braid.POCKET, "-")
        # One failed question of a piped chat has said so.
        self.fail_in_one_line(["context", "20"], "run", braid.POCKET, "--context", 20, text="word " * 50 + "\n")
        for more in ([], ["--raw"]):
            self.fail_in_one_line(["/dev/null: the prompt is empty"], "run", braid.POCKET, "--file", "/dev/null", *more)
            self.fail_in_one_line(["empty.txt: the prompt is empty"], "run", braid.POCKET, "--file", self.write("empty.txt", ""), *more)
        self.fail_in_one_line(["empty.txt"], "perplexity", braid.POCKET, self.write("empty.txt", ""))

    def test_texts_are_utf8(self):
        file = self.folder / "latin1.txt"
        file.write_bytes("a café by the river".encode("latin-1"))
        expected = [f"{file}: not UTF-8: byte 0xe9 at 5"]
        for arguments in (["run", braid.POCKET, "--file", file], ["tokenize", braid.POCKET, "--file", file], ["perplexity", braid.POCKET, file]):
            self.fail_in_one_line(expected, *arguments)
        for arguments, name in ((["run", braid.POCKET, "-"], "standard input"), (["run", braid.POCKET], "the line"),
                                (["tokenize", braid.POCKET, "-"], "standard input"), (["run", braid.POCKET, b"caf\xe9"], "PROMPT"),
                                (["run", braid.POCKET, "hi", "--system", b"\xff"], "--system"), (["tokenize", braid.POCKET, b"\xc3"], "TEXT")):
            done = braid.subprocess.run([braid.BINARY / "braid", *arguments], input=file.read_bytes(), capture_output=True, timeout=60, check=False)
            self.assertEqual((done.returncode, done.stderr.count(b"\n")), (1, 1), done.stderr)
            self.assertTrue(done.stderr.startswith(f"braid: {name}: not UTF-8: byte".encode()), done.stderr)

    def write(self, name, text):
        (self.folder / name).write_text(text, encoding="utf-8")
        return self.folder / name

    def test_pipes_and_devices_are_files_too(self):
        expected = self.succeed("run", braid.POCKET, "Spell banana.", "--temperature", 0, "--system", "x")
        program = f"'{braid.BINARY}/braid'"

        def shell(command, text=None):
            done = braid.subprocess.run(["bash", "-c", command], input=text, capture_output=True, text=True, timeout=120, check=False)
            self.assertEqual(done.returncode, 0, f"{command}\n{done.stderr}")
            return done.stdout

        run = f"{program} run '{braid.POCKET}' --temperature 0"
        self.assertEqual(shell(f"{run} --system x --file <(printf 'Spell banana.')"), expected)
        self.assertEqual(shell(f"{run} --system x --file /dev/stdin", "Spell banana."), expected)
        talk = '[{"role": "system", "content": "x"}, {"role": "user", "content": "Spell banana."}]'
        self.assertEqual(shell(f"{run} --messages /dev/stdin", talk), expected)
        self.assertEqual(shell(f"{run} --chat-template <(printf Spell) hello"), shell(f"{run} --raw Spell"))
        self.assertEqual(shell(f"{program} tokenize '{braid.POCKET}' --file <(printf hello)"), self.succeed("tokenize", braid.POCKET, "hello"))
        self.assertIn("nats", shell(f"{program} perplexity '{braid.POCKET}' <(echo a river is a stream)"))
        self.fail_in_one_line(["/dev/zero", "does not end"], "tokenize", braid.POCKET, "--file", "/dev/zero")

    def test_memory(self):
        # A context whose keys and values no machine holds.
        self.fail_in_one_line(["memory", "GB"], "run", braid.POCKET, "hello", "--context", 2 * 10**9)
        case = self.case("qwen3")
        config = braid.read_json(case / "config.json")
        config.update(num_hidden_layers=4, max_position_embeddings=2**31 - 1)
        braid.write_json(case / "config.json", config)
        self.succeed("verify", case)  # what a model promises costs nothing until it is used

    def test_usage(self):
        for arguments in (["run"], ["fly"], ["run", braid.POCKET, "x", "--threads", "many"], ["run", braid.POCKET, "x", "--device", "abacus"],
                          ["run", braid.POCKET, "x", "--activations", "f8"], ["run", braid.POCKET, "x", "--no-such-flag"],
                          ["run", braid.POCKET, "x", "--logit-bias", "1"], ["run", braid.POCKET, "x", "--logit-bias", "9999999=1"],
                          ["run", braid.POCKET, "x", "--rope-scaling", "7"], ["--log", "loud", "describe", braid.POCKET],
                          ["run", braid.POCKET, "x", "--device", "cuda"] if "sees" not in braid.run("--version")[1] else ["fly"]):
            code, out, err = braid.run(*arguments)
            self.assertEqual(code, 2, f"{arguments}\n{out}\n{err}")
            self.assertTrue(err.strip())

    def test_what_is_not_a_file(self):
        for name in ("config.json", "tokenizer.json", "model.safetensors", "generation_config.json", "chat_template.jinja"):
            model = self.copy_model(braid.POCKET, f"fifo-{name}")
            (model / name).unlink()
            braid.os.mkfifo(model / name)
            self.fail_in_one_line([name if name != "model.safetensors" else "model", "not a regular file"], "run", model, "hello")

    def test_links_and_rights(self):
        for name in ("config.json", "tokenizer.json", "model.safetensors", "generation_config.json", "chat_template.jinja", "tokenizer_config.json"):
            model = self.copy_model(braid.POCKET, f"loop-{name}")
            (model / name).unlink()
            (model / name).symlink_to(name)
            self.fail_in_one_line([str(model / name), "Too many levels"], "run", model, "hello")
            (model / name).unlink()
            (model / name).mkdir()
            self.fail_in_one_line([str(model / name)], "run", model, "hello")
        loop = self.folder / "loop"
        loop.symlink_to("loop")
        text = self.write("text.txt", "a river is a stream of water")
        for arguments in (["run", loop, "hello"], ["run", braid.POCKET, "--file", loop], ["run", braid.POCKET, "--messages", loop],
                          ["run", braid.POCKET, "hello", "--chat-template", loop], ["tokenize", braid.POCKET, "--file", loop],
                          ["perplexity", braid.POCKET, loop], ["perplexity", braid.POCKET, text, "--against", loop],
                          ["perplexity", braid.POCKET, text, "--save-logits", loop], ["bench", braid.POCKET, "--out", loop]):
            self.fail_in_one_line([str(loop), "Too many levels"], *arguments)
        for arguments in (["run", braid.POCKET, "--file", self.folder], ["perplexity", braid.POCKET, text, "--against", self.folder],
                          ["perplexity", braid.POCKET, text, "--save-logits", self.folder], ["bench", braid.POCKET, "--svg", self.folder]):
            self.fail_in_one_line([str(self.folder), "file"], *arguments)
        for command in ("run", "describe", "tokenize", "verify"):
            self.fail_in_one_line([str(text)], command, text, *(["x"] if command in ("run", "tokenize") else []))

    @unittest.skipIf(os.geteuid() == 0, "root may read everything")
    def test_rights(self):
        locked = self.folder / "locked"
        locked.mkdir()
        (locked / "file").write_text("x", encoding="utf-8")
        locked.chmod(0)
        self.addCleanup(locked.chmod, 0o755)
        self.fail_in_one_line([str(locked), "Permission denied"], "run", locked, "hello")
        self.fail_in_one_line([str(locked), "Permission denied"], "run", braid.POCKET, "--file", locked / "file")
        self.fail_in_one_line([str(locked), "Permission denied"], "bench", braid.POCKET, "--out", locked / "out")

    def test_outputs_that_cannot_be_written_are_found_at_once(self):
        text = self.write("text.txt", "a river is a stream of water")
        before = set(self.folder.iterdir())
        for option in ("--out", "--svg"):
            self.fail_in_one_line([str(self.folder / "no" / "out"), "No such file"], "bench", self.folder / "nowhere", option, self.folder / "no" / "out")
        self.fail_in_one_line([str(self.folder / "no" / "out")], "perplexity", self.folder / "nowhere", text, "--save-logits", self.folder / "no" / "out")
        kept = self.write("kept", "before")
        for arguments in (["bench", self.folder / "nowhere", "--out", kept], ["bench", braid.POCKET, "--contexts", 9999999, "--svg", kept],
                          ["perplexity", self.folder / "nowhere", text, "--save-logits", kept],
                          ["perplexity", braid.POCKET, text, "--against", text, "--save-logits", kept]):
            code, out, err = braid.run(*arguments)
            self.assertNotEqual(code, 0)
            self.assertEqual(kept.read_text(), "before", err)
        self.assertEqual(set(self.folder.iterdir()) - before, {kept})

    def test_an_empty_template_is_to_blame(self):
        empty = self.write("empty.jinja", "")
        self.fail_in_one_line(["empty.jinja", "empty prompt"], "run", braid.POCKET, "hello", "--chat-template", empty)

    def test_ranges(self):
        text = self.write("long.txt", "a river is a stream of water " * 40)
        self.succeed("perplexity", braid.POCKET, text, "--max-tokens", 64, "--stride", 64)
        for arguments in (["run", braid.POCKET, "x", "--context", 2**63 - 1], ["run", braid.POCKET, "x", "--seed", "-1"],
                          ["run", braid.POCKET, "x", "--max-tokens", "-2"], ["bench", braid.POCKET, "--contexts", "-1"],
                          ["verify", braid.GOLDENS / "qwen3", "--chunk", 10**20], ["nonsense"],
                          ["perplexity", braid.POCKET, text, "--save-logits", text]):
            self.fail_in_one_line([], *arguments, code=2)

    def test_nobody_listens(self):
        with open("/dev/full", "w", encoding="utf-8") as full:
            program = str(braid.BINARY / "braid")
            for arguments in (["--version"], ["describe", str(braid.POCKET)], ["run", str(braid.POCKET), "hi", "--max-tokens", "2"]):
                done = braid.subprocess.run([program, *arguments], stdout=full, stderr=braid.subprocess.PIPE, check=False)
                self.assertEqual(done.returncode, 1, arguments)
            for arguments in (["run", "/nowhere", "hi"], ["run", str(braid.POCKET), "hi", "--stats", "--max-tokens", "2"]):
                done = braid.subprocess.run([program, *arguments], stdout=braid.subprocess.DEVNULL, stderr=full, check=False)
                self.assertEqual(done.returncode, 1, arguments)
        text = self.write("t.txt", "a river is a stream of water")
        self.fail_in_one_line(["/dev/full", "regular"], "perplexity", braid.POCKET, text, "--save-logits", "/dev/full")

    def test_full_disk(self):
        text = self.write("text.txt", "a river is a stream of water")
        if braid.pathlib.Path("/dev/full").exists():
            self.fail_in_one_line(["/dev/full"], "bench", braid.POCKET, "--prefill", 8, "--decode", 1, "--repeats", 1, "--out", "/dev/full")
        self.fail_in_one_line(["nowhere"], "perplexity", braid.POCKET, text, "--save-logits", self.folder / "nowhere" / "logits")


if __name__ == "__main__":
    braid.main()
