// ApiError: why a request is refused, before it takes the shape that its API gives to errors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <exception>
#include <string>
#include <utility>

namespace braid::server {

enum class Fault {
  Invalid,
  Unauthorized,
  NotFound,
  Method,
  TooLarge,
  Late,
  HeadersTooLarge,
  Busy,
  Unavailable,
  Internal
};

// The status of HTTP that a fault has in every API.
int status_of(Fault fault);
// The fault that the HTTP layer reports as `status`.
Fault fault_of(int status);

class ApiError : public std::exception {
 public:
  // `param`: the field that is wrong, "messages[0].role"; `code`: a word for programs. Either may be empty.
  ApiError(Fault fault, std::string message, std::string param = "", std::string code = "")
      : fault(fault), message(std::move(message)), param(std::move(param)), code(std::move(code)) {}
  const char* what() const noexcept override { return message.c_str(); }

  Fault fault;
  std::string message, param, code;
};

}  // namespace braid::server
