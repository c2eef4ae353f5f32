// Asks an OpenAI-compatible server over HTTP, many requests at a time from one thread, and notes when tokens come.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/json.h"

namespace braid::cli {

// Where a server is asked: its host and port, and what stands before "/chat/completions".
struct Endpoint {
  bool tls = false;  // https: the certificate is checked against those that the system trusts
  std::string host, port, base;
  std::string key;  // sent as "Authorization: Bearer"; empty: none
};
// "http://host:port" or "https://host", where "/v1" is meant, or with a path that is taken as it is. A Usage error for
// anything else.
Endpoint parse_endpoint(const std::string& url);

// One streamed request. Times are seconds of the client's clock.
struct Timing {
  double sent = 0, first = 0, last = 0, end = 0;   // first, last: pieces of the answer; end: of the response
  std::vector<double> gaps;                        // from piece to piece
  int64_t pieces = 0;                              // of the answer: one a token where the server does not join them
  int64_t prompt_tokens = -1, answer_tokens = -1;  // as the server counts them; -1: it does not say
  std::string fault;                               // one line; empty: the answer ended as it should
};

// Not thread-safe. Connections are kept and used again.
class LoadClient {
 public:
  // Resolves the host; an Input error where that fails.
  explicit LoadClient(const Endpoint& endpoint);
  ~LoadClient();

  struct Reply {
    int status = 0;
    Json body;  // null where it is no JSON
  };
  // One request and its whole answer, now. An Input error where nobody answers. Not while `run` runs.
  Reply ask(const std::string& method, const std::string& path, const std::string& body);

  // POST of `body`, which asks for a stream; `done` is called from within `run`.
  using Done = std::function<void(Timing timing)>;
  void start(const std::string& path, std::string body, Done done);
  // Calls `work` from within `run` at that time of the clock.
  void at(double seconds, std::function<void()> work);
  double now() const;  // since this was made
  // Until nothing is under way. Throws Interrupted after Ctrl-C.
  void run();

 private:
  class Connection;
  struct Shared;
  std::unique_ptr<Shared> shared_;
};

// What a server says that it refuses: "401: an API key is needed".
std::string refusal(int status, const Json& body);

}  // namespace braid::cli
