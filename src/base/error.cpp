// SPDX-License-Identifier: Apache-2.0
#include "base/error.h"

#include <cstdio>
#include <cstdlib>

namespace braid {

void check_failed(const char* file, int line, const char* condition, const std::string& values) {
  std::fprintf(stderr, "braid: internal error at %s:%d: %s %s\n", file, line, condition, values.c_str());
  std::abort();
}

}  // namespace braid
