// Fault: what a builtin or operator throws inside the interpreter, before template name and line are known.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/format.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

#include "text/template/template_error.h"

namespace braid::jinja {

// Largest string that an expression may build.
inline constexpr size_t kMaxTextBytes = size_t{64} << 20;
// Deepest nesting of containers, and most values inside one container (counting shared ones each time they appear), so
// that walks over a value are bounded.
inline constexpr uint32_t kMaxValueDepth = 400;
inline constexpr uint64_t kMaxValueNodes = uint64_t{1} << 22;

struct Fault {
  TemplateFault kind;
  std::string message;
};

// Throws a run-time Fault.
template <typename... Args>
[[noreturn]] void raise(fmt::format_string<Args...> format, Args&&... args) {
  throw Fault{TemplateFault::Runtime, fmt::format(format, std::forward<Args>(args)...)};
}

template <typename... Args>
[[noreturn]] void raise_limit(fmt::format_string<Args...> format, Args&&... args) {
  throw Fault{TemplateFault::Limit, fmt::format(format, std::forward<Args>(args)...)};
}

inline void check_text_size(size_t bytes) {
  if (bytes > kMaxTextBytes) raise_limit("a string would be larger than {} MiB", kMaxTextBytes >> 20);
}

}  // namespace braid::jinja
