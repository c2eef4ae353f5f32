# The built program needs the C library alone, so that it runs on machines without the packages it was built with.
# SPDX-License-Identifier: Apache-2.0
import re
import subprocess
import unittest

import braid


class Portable(braid.Case):
    def test_shared_libraries(self):
        if b"__asan_init" in (binary := (braid.BINARY / "braid").read_bytes()) or b"__tsan_init" in binary:
            self.skipTest("sanitizers bring libraries of their own")
        listed = subprocess.run(["readelf", "-d", braid.BINARY / "braid"], capture_output=True, text=True, check=True).stdout
        needed = set(re.findall(r"NEEDED.*\[(.*)\]", listed))
        self.assertTrue(needed <= {"libc.so.6", "libm.so.6", "ld-linux-x86-64.so.2"}, needed)


if __name__ == "__main__":
    braid.main()
