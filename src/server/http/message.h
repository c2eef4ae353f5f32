// A request and a response of HTTP, as everything above the sockets sees them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace braid::server {

struct HttpHeader {
  std::string name, value;
};

struct HttpRequest {
  std::string method;  // as it came: "GET"
  std::string path;    // without the query, percent codes decoded
  std::string query;   // after the '?', as it came
  std::vector<HttpHeader> headers;
  std::string body;
  std::string peer;  // address and port of the client

  // The value of the first header of this name, in any case of letters; empty where there is none.
  std::string_view header(std::string_view name) const;
};

struct HttpResponse {
  int status = 200;
  std::string content_type = "application/json";
  std::string body;
  std::vector<HttpHeader> headers;  // beside content-type, content-length, connection and date
};

// The decoded text of a path; what is no valid percent code stays as it is.
std::string decode_percent(std::string_view text);

// "Too Many Requests" for 429.
std::string_view reason_of(int status);

}  // namespace braid::server
