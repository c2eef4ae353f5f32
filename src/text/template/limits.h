// What a template may use before it is stopped.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <ctime>
#include <functional>

namespace braid {

struct TemplateLimits {
  uint64_t output_bytes = uint64_t{64} << 20;
  uint64_t steps = 20'000'000;               // expressions and statements, and a share for long lists
  uint64_t built_bytes = uint64_t{2} << 30;  // all strings and lists that expressions build, together
  int depth = 1500;                          // expressions, statements and macro calls inside each other
};

struct TemplateOptions {
  TemplateLimits limits;
  // The time that strftime_now prints; the machine's local time where empty.
  std::function<std::tm()> now;
};

}  // namespace braid
