# Ctrl-C stops an answer and not the program: a chat in a pseudo-terminal.
# SPDX-License-Identifier: Apache-2.0
import os
import pty
import select
import signal
import time

import braid


class Interrupt(braid.Case):
    def test_an_answer_stops_and_the_chat_goes_on(self):
        process, terminal = pty.fork()
        if process == 0:
            # Unlikely tokens without end, so that the answer is still running when it is interrupted.
            os.execv(str(braid.BINARY / "braid"), ["braid", "run", str(braid.POCKET), "--temperature", "3", "--top-k", "0", "--top-p", "1",
                                                  "--logit-bias=6114=-1000", "--logit-bias=6112=-1000", "--device", "reference"])
        self.addCleanup(os.close, terminal)
        self.unread = ""
        self.read_until(terminal, "> ")
        os.write(terminal, b"hello\n")
        time.sleep(1)
        os.write(terminal, b"\x03")
        seen = self.read_until(terminal, "[stopped]")
        self.read_until(terminal, "> ")
        os.write(terminal, b"\x03")  # nothing runs: the program stays
        self.read_until(terminal, "> ")
        os.write(terminal, b"/reset\n")
        self.read_until(terminal, "> ")
        os.write(terminal, b"\x04")
        for _ in range(100):
            done, status = os.waitpid(process, os.WNOHANG)
            if done:
                break
            time.sleep(0.1)
        else:
            os.kill(process, signal.SIGKILL)
            self.fail("the program did not end at the end of its input")
        self.assertTrue(os.WIFEXITED(status) and os.WEXITSTATUS(status) == 0, status)

    def test_long_work_clears_up_behind_itself(self):
        text, saved = self.folder / "text", self.folder / "logits"
        text.write_text("a river is a stream of water " * 20000, encoding="utf-8")
        process, terminal = pty.fork()
        if process == 0:
            os.execv(str(braid.BINARY / "braid"), ["braid", "perplexity", str(braid.POCKET), str(text), "--stride", "512", "--save-logits", str(saved),
                                                  "--device", "reference"])
        self.addCleanup(os.close, terminal)
        self.unread = ""
        self.read_until(terminal, "scoring [")
        os.write(terminal, b"\x03")
        self.read_until(terminal, "\r\x1b[K", seconds=20)
        status = 0
        try:
            while chunk := os.read(terminal, 4096).decode(errors="replace"):
                self.unread += chunk
        except OSError:
            pass
        _, status = os.waitpid(process, 0)
        self.assertTrue(os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGINT, status)
        self.assertTrue(self.unread == "" or self.unread.endswith("\r\x1b[K"), self.unread)
        self.assertEqual(list(self.folder.iterdir()), [text])

    def read_until(self, terminal, text, seconds=60):
        end = time.monotonic() + seconds
        while text not in self.unread:
            ready, _, _ = select.select([terminal], [], [], max(0, end - time.monotonic()))
            if not ready:
                self.fail(f"no {text!r} in {self.unread!r}")
            try:
                self.unread += os.read(terminal, 4096).decode(errors="replace")
            except OSError:
                self.fail(f"the program ended: {self.unread!r}")
        self.unread = self.unread[self.unread.index(text) + len(text):]


if __name__ == "__main__":
    braid.main()
