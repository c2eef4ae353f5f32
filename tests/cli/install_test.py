# What `make install` installs: every file, the library through its CMake package, the service, completion in each shell.
# SPDX-License-Identifier: Apache-2.0
import os
import re
import shutil
import subprocess
import unittest

import braid

FILES = ["bin/braid", "include/braid/api/model.h", "include/braid/engine/engine.h", "lib/libbraid.a",
         "lib/cmake/braid/braid-config.cmake", "lib/cmake/braid/braid-config-version.cmake", "lib/cmake/braid/braid-targets.cmake",
         "lib/systemd/system/braid.service", "share/bash-completion/completions/braid", "share/zsh/site-functions/_braid",
         "share/fish/vendor_completions.d/braid.fish", "share/man/man1/braid.1", "share/doc/braid/README.md", "share/doc/braid/LICENSE",
         "share/doc/braid/NOTICE", "share/doc/braid/options.md", "share/doc/braid/answer.cpp", "share/braid/shapes/qwen3.5-0.8b/config.json"]


def cache(name):
    text = (braid.BINARY / "CMakeCache.txt").read_text(encoding="utf-8")
    found = re.search(rf"^{name}:\w+=(.*)$", text, re.M)
    return found[1] if found else ""


def need(command):
    return unittest.skipUnless(shutil.which(command), f"{command} is not installed")


class Install(braid.Case):
    def done(self, *command, **options):
        done = subprocess.run([*map(str, command)], capture_output=True, text=True, timeout=500, **options)
        self.assertEqual(done.returncode, 0, f"{' '.join(map(str, command))}\n{done.stdout}\n{done.stderr}")
        return done.stdout

    def install(self, **environment):
        prefix = self.folder / "prefix"
        self.done("cmake", "--install", braid.BINARY, "--prefix", prefix, env={**os.environ, **environment})
        return prefix

    def test_every_file_below_a_staging_folder(self):
        stage = self.folder / "stage"
        prefix = self.install(DESTDIR=str(stage))
        self.assertFalse(prefix.exists())
        root = stage / prefix.relative_to("/")
        found = {str(path.relative_to(root)).replace("lib/x86_64-linux-gnu/", "lib/") for path in root.rglob("*") if path.is_file()}
        self.assertEqual([name for name in FILES if name not in found], [])
        others = {name for name in found if not name.startswith(("include/braid/", "share/braid/shapes/", "lib/cmake/braid/"))}
        self.assertEqual(sorted(others - set(FILES)), [])
        for name in found:
            self.assertFalse(name.endswith(("_test.h", ".cpp.in")), name)
        # Nothing in a text that is installed leads back to where it was built.
        for path in root.rglob("*"):
            if path.is_file() and path.suffix in (".cmake", ".service", ".1", ".fish"):
                self.assertNotIn(str(braid.SOURCE), path.read_text(encoding="utf-8"), path)
                self.assertNotIn(str(stage), path.read_text(encoding="utf-8"), path)

    def test_the_example_builds_against_the_package_and_answers(self):
        if cache("BRAID_SANITIZE"):
            self.skipTest("an archive with sanitizers wants their flags")
        prefix, build = self.install(), self.folder / "build-example"
        source = self.folder / "examples"
        shutil.copytree(braid.SOURCE / "examples", source)
        self.done("cmake", "-S", source, "-B", build, f"-DCMAKE_PREFIX_PATH={prefix}", "-DCMAKE_BUILD_TYPE=Release")
        self.done("cmake", "--build", build)
        question = 'What does "river" mean?'
        out = self.done(build / "answer", braid.POCKET, question)
        self.assertEqual(out.strip(), self.succeed("run", braid.POCKET, question, "--temperature", 0, "--think", "off").strip())
        wrong = subprocess.run([build / "answer", self.folder / "none", "x"], capture_output=True, text=True)
        self.assertEqual((wrong.returncode, wrong.stderr.count("\n")), (1, 1), wrong.stderr)
        lines = [line for line in (source / "answer.cpp").read_text().splitlines() if line.strip() and not line.startswith(("//", "#"))]
        self.assertLessEqual(len(lines), 30)
        # The installed program finds what was installed with it.
        out = self.done(prefix / "bin" / "braid", "bench", "--shape", "qwen3.5-0.8b", "--layers", 1, "--batches", 1, "--contexts", 8,
                        "--prompts", 8, cwd=self.folder)
        self.assertIn("prefill", out)

    @need("systemd-analyze")
    def test_the_service_is_one(self):
        prefix = self.install()
        unit = prefix / "lib/systemd/system/braid.service"
        self.assertIn(f"ExecStart={prefix}/bin/braid serve ", unit.read_text())
        done = subprocess.run(["systemd-analyze", "verify", str(unit)], capture_output=True, text=True, timeout=60,
                              env={**os.environ, "SYSTEMD_LOG_LEVEL": "warning"})
        mine = [line for line in (done.stdout + done.stderr).splitlines() if "braid" in line]
        self.assertEqual(mine, [], done.stderr)
        # The check finds what is wrong where something is.
        unit.write_text(unit.read_text().replace("Restart=on-failure", "Restart=sometimes"))
        done = subprocess.run(["systemd-analyze", "verify", str(unit)], capture_output=True, text=True, timeout=60)
        self.assertIn("sometimes", done.stdout + done.stderr)

    @need("man")
    def test_the_manual_page_has_no_faults(self):
        prefix = self.install()
        done = subprocess.run(["man", "--warnings", "-E", "UTF-8", "-l", str(prefix / "share/man/man1/braid.1")], capture_output=True, text=True)
        self.assertEqual(done.stderr, "")
        self.assertIn("answers HTTP", done.stdout)


class Completion(braid.Case):
    def setUp(self):
        super().setUp()
        self.path = {**os.environ, "PATH": f"{braid.BINARY}:{os.environ['PATH']}"}

    def check(self, complete):
        """`complete(words)` gives what is offered where the last word is being typed."""
        self.assertEqual(complete(["braid", "per"]), ["perplexity"])
        commands = complete(["braid", ""])
        self.assertEqual(sorted(commands), ["bench", "describe", "perplexity", "run", "serve", "tokenize", "verify"])
        self.assertEqual(complete(["braid", "serve", "--api-key-f"]), ["--api-key-file"])
        self.assertEqual(sorted(complete(["braid", "run", "x", "--top"])), ["--top-k", "--top-p"])
        self.assertEqual(complete(["braid", "--lo"]), ["--log"])

    def lines(self, *command, text=None):
        done = subprocess.run([*map(str, command)], input=text, capture_output=True, text=True, timeout=60, env=self.path)
        self.assertEqual(done.stderr, "")
        return sorted(set(done.stdout.splitlines()))

    @need("bash")
    def test_bash(self):
        def complete(words):
            quoted = " ".join(f"'{word}'" for word in words)
            return self.lines("bash", "-c", f"source {braid.SOURCE}/share/braid.bash; COMP_WORDS=({quoted}); COMP_CWORD={len(words) - 1}; "
                              "_braid; printf '%s\\n' \"${COMPREPLY[@]}\"")
        self.check(complete)

    @need("zsh")
    def test_zsh(self):
        def complete(words):
            quoted = " ".join(f"'{word}'" for word in words)
            offered = self.lines("zsh", "-fc", "compadd() { shift; print -l -- $@ }; _files() {}; _call_program() { shift; $@ }; "
                                 f"words=({quoted}); CURRENT={len(words)}; source {braid.SOURCE}/share/braid.zsh")
            return [word for word in offered if word.startswith(words[-1])]
        self.check(complete)

    @need("fish")
    def test_fish(self):
        def complete(words):
            offered = self.lines("fish", "--no-config", "-c", f"source {braid.SOURCE}/share/braid.fish; complete -C '{' '.join(words)}'")
            return sorted({word.split("\t")[0] for word in offered})
        self.check(complete)


if __name__ == "__main__":
    braid.main()
