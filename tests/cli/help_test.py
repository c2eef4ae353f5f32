# Help fits a screen, and docs/options.md says what it says. `help_test.py --write` writes that page anew.
# SPDX-License-Identifier: Apache-2.0
import sys

import braid

COMMANDS = ["run", "serve", "bench", "verify", "perplexity", "tokenize", "describe"]
PAGE = braid.SOURCE / "docs" / "options.md"


def help_of(*command):
    code, out, err = braid.run(*command, "--help")
    assert code == 0, err
    lines = [line.rstrip() for line in out.replace(str(braid.BINARY / "braid"), "braid").strip().splitlines()]
    return "\n".join(lines)


def page():
    parts = ["# Options\n\nWhat `braid --help` and `braid COMMAND --help` print; a test holds this page to the program.\n"]
    parts += [f"## braid {command}\n\n```\n{help_of(command)}\n```\n" for command in COMMANDS]
    return "\n".join([parts[0], f"```\n{help_of()}\n```\n", *parts[1:]])


class Help(braid.Case):
    def test_every_help_fits_a_screen(self):
        for command in ([], *[[c] for c in COMMANDS]):
            self.assertLessEqual(len(help_of(*command).splitlines()), 60)

    def test_the_page_says_what_the_program_says(self):
        self.assertEqual(PAGE.read_text(encoding="utf-8"), page(), "run tests/cli/help_test.py --write")

    def test_version_names_the_commit(self):
        out = self.succeed("--version")
        self.assertRegex(out, r"^braid \d+\.\d+\.\d+ \(\w+")

    def test_options_may_stand_before_positionals(self):
        out = self.succeed("run", "--stop", "natural", "--temperature", 0, braid.POCKET, 'What does "river" mean?')
        self.assertEqual(out, "river (noun): a large \n")


if __name__ == "__main__":
    if sys.argv[1:] == ["--write"]:
        PAGE.write_text(page(), encoding="utf-8")
        sys.exit()
    braid.main()
