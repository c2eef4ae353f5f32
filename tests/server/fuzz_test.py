# The fuzzer of HTTP in short form: what it begins with is right, and what it makes of that breaks nothing.
# SPDX-License-Identifier: Apache-2.0
import http_fuzz
import server
from server import braid


class Fuzz(braid.Case):
    def test_what_it_begins_with_is_served(self):
        with server.running("--context", 256, "--max-tokens", 16) as running:
            for path, body in http_fuzz.BODIES:
                for stream in (False, True):
                    connection = running.connection()
                    connection.request("POST", path, http_fuzz.json.dumps({**body, "stream": stream}))
                    answer = connection.getresponse()
                    self.assertEqual(answer.status, 200, (path, answer.read()))
                    answer.read()
                    connection.close()

    def test_ten_seconds(self):
        print(http_fuzz.fuzz(seconds=10, seed=20261201))


if __name__ == "__main__":
    braid.main()
