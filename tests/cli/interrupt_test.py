# Ctrl-C stops an answer of a chat and not the program, and everything else with the program.
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

    def test_one_answer_ends_with_the_program(self):
        # Every way to ask once; what was said until then arrives, in whichever form.
        conversation = self.folder / "conversation.json"
        braid.write_json(conversation, [{"role": "user", "content": "hello"}])
        for asked, text in (((), "hello"), (("--messages", str(conversation)), None), (("--ids", "5 6"), None)):
            for form in ((), ("--json",)):
                command = [*self.endless(), *asked, *form, *([text] if text else [])]
                for seconds in (1, 4, 16):  # JSON says nothing before its end, so when the answer has begun can only be guessed
                    process = braid.subprocess.Popen(command, stdout=braid.subprocess.PIPE, stderr=braid.subprocess.PIPE)
                    if form:
                        time.sleep(seconds)
                    said = b"" if form else process.stdout.read(1)
                    process.send_signal(signal.SIGINT)
                    out, err = process.communicate(timeout=60)
                    self.assertEqual(process.returncode, -signal.SIGINT, err)  # 130 to a shell
                    if b"[stopped]" in err:
                        break
                self.assertIn(b"[stopped]", err)
                self.assertTrue(b'"finish": "cancelled"' in out if form else said, out)

    def test_a_shell_sees_130(self):
        command = " ".join(f"'{word}'" for word in (*self.endless(), "hello"))
        script = f"{command} > {self.folder}/out 2> {self.folder}/err & sleep 1; kill -INT $!; wait $!; echo $?"
        # A shell without job control has its background ignore Ctrl-C, so `-m`.
        done = braid.subprocess.run(["bash", "-m", "-c", script], capture_output=True, text=True, timeout=60, check=False)
        self.assertEqual(done.stdout.strip().splitlines()[-1], "130", done)

    def test_waiting_for_input_ends(self):
        pipe = self.folder / "pipe"
        os.mkfifo(pipe)
        writer = os.open(pipe, os.O_RDWR)  # so that it neither waits for one nor ends
        self.addCleanup(os.close, writer)
        for asked in (("--file", str(pipe)), ("-",), ("--messages", str(pipe))):
            process = braid.subprocess.Popen([str(braid.BINARY / "braid"), "run", str(braid.POCKET), *asked], stdin=braid.subprocess.PIPE,
                                             stdout=braid.subprocess.PIPE, stderr=braid.subprocess.PIPE)
            time.sleep(1)
            process.send_signal(signal.SIGINT)
            _, err = process.communicate(timeout=60)
            self.assertEqual((process.returncode, err), (-signal.SIGINT, b""))

    def endless(self):
        """A command that answers until it is stopped."""
        return [str(braid.BINARY / "braid"), "run", str(braid.POCKET), "--temperature", "3", "--top-k", "0", "--top-p", "1",
                "--logit-bias=6114=-1000", "--logit-bias=6112=-1000", "--device", "reference"]

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
