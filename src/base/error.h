// Errors of this engine: one exception type with a kind, whose message gains context as it rises.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/format.h>

#include <exception>
#include <string>
#include <utility>

namespace braid {

// What the caller should do about an error. Usage: the command line is wrong. Input: a file, model or request is wrong.
// Resource: memory, disk or device ran out. Internal: a bug here.
enum class ErrorKind { Usage, Input, Resource, Internal };

class Error : public std::exception {
 public:
  Error(ErrorKind kind, std::string message) : kind_(kind), message_(std::move(message)) {}
  const char* what() const noexcept override { return message_.c_str(); }
  ErrorKind kind() const { return kind_; }
  const std::string& message() const { return message_; }
  // Puts "context: " in front of the message.
  void add_context(const std::string& context) { message_ = context + ": " + message_; }

 private:
  ErrorKind kind_;
  std::string message_;
};

// Throws an Input error: fail("tensor {}: expected {}", name, shape).
template <typename... Args>
[[noreturn]] void fail(fmt::format_string<Args...> format, Args&&... args) {
  throw Error(ErrorKind::Input, fmt::format(format, std::forward<Args>(args)...));
}

template <typename... Args>
[[noreturn]] void fail(ErrorKind kind, fmt::format_string<Args...> format, Args&&... args) {
  throw Error(kind, fmt::format(format, std::forward<Args>(args)...));
}

// Runs `work`; an Error that leaves it gains `context` in front.
template <typename Work>
decltype(auto) with_context(const std::string& context, Work&& work) {
  try {
    return std::forward<Work>(work)();
  } catch (Error& error) {
    error.add_context(context);
    throw;
  }
}

[[noreturn]] void check_failed(const char* file, int line, const char* condition, const std::string& values);

}  // namespace braid

// Programmer errors: CHECK(rows > 0, "rows={}", rows) prints the place and the values, and aborts.
#define CHECK(condition, ...)                                                               \
  do {                                                                                      \
    if (!(condition)) [[unlikely]]                                                          \
      ::braid::check_failed(__FILE__, __LINE__, #condition, ::fmt::format("" __VA_ARGS__)); \
  } while (false)
