// SPDX-License-Identifier: Apache-2.0
#include "server/openai/error.h"

namespace braid::server {
namespace {

const char* type_of(Fault fault) {
  switch (fault) {
    case Fault::Busy:
      return "requests";
    case Fault::Unavailable:
    case Fault::Internal:
      return "server_error";
    default:
      return "invalid_request_error";
  }
}

}  // namespace

std::string dump(const Json& value) { return value.dump(-1, ' ', false, Json::error_handler_t::replace); }

Json openai_error_body(const ApiError& error) {
  const auto text_or_null = [](const std::string& text) { return text.empty() ? Json() : Json(text); };
  return {{"error",
           {{"message", error.message},
            {"type", type_of(error.fault)},
            {"param", text_or_null(error.param)},
            {"code", text_or_null(error.code)}}}};
}

HttpResponse openai_error(const ApiError& error) {
  HttpResponse response{.status = status_of(error.fault), .body = dump(openai_error_body(error))};
  if (error.fault == Fault::Busy || error.fault == Fault::Unavailable) response.headers.push_back({"Retry-After", "1"});
  if (error.fault == Fault::Unauthorized) response.headers.push_back({"WWW-Authenticate", "Bearer"});
  return response;
}

}  // namespace braid::server
