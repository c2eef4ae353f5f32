// SPDX-License-Identifier: Apache-2.0
#include "server/anthropic/error.h"

#include "server/openai/error.h"

namespace braid::server {
namespace {

const char* type_of(Fault fault) {
  switch (fault) {
    case Fault::Unauthorized:
      return "authentication_error";
    case Fault::NotFound:
      return "not_found_error";
    case Fault::TooLarge:
      return "request_too_large";
    case Fault::Late:
      return "timeout_error";
    case Fault::Busy:
      return "rate_limit_error";
    case Fault::Unavailable:
      return "overloaded_error";
    case Fault::Internal:
      return "api_error";
    default:
      return "invalid_request_error";
  }
}

}  // namespace

Json anthropic_error_body(const ApiError& error) {
  return {{"type", "error"}, {"error", {{"type", type_of(error.fault)}, {"message", error.message}}}};
}

HttpResponse anthropic_error(const ApiError& error) {
  HttpResponse response{.status = status_of(error.fault), .body = dump(anthropic_error_body(error))};
  if (error.fault == Fault::Busy || error.fault == Fault::Unavailable) response.headers.push_back({"Retry-After", "1"});
  return response;
}

}  // namespace braid::server
