// Call: one request on its way through the server, and the line that the log gets about it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <string>

#include "server/api_error.h"
#include "server/http/exchange.h"
#include "server/metrics.h"

namespace braid::server {

// The response that an API gives to a fault.
using ErrorForm = HttpResponse (*)(const ApiError& error);

// Any thread. When the last reference goes, the record is handed on; until then it may be filled.
class Call : public std::enable_shared_from_this<Call> {
 public:
  struct Setting {
    std::vector<HttpHeader> headers;                // of every response: CORS
    std::function<void(const CallRecord&)> finish;  // gets the record at the end
  };
  Call(std::shared_ptr<Exchange> exchange, Setting setting);
  ~Call();

  const HttpRequest& request() const { return exchange_->request(); }
  const std::string& id() const { return id_; }  // the client's X-Request-Id, or one of ours
  double seconds() const;                        // since the request arrived

  void set_route(std::string path, ErrorForm form);
  void set_key(std::string name);
  void respond(HttpResponse response);
  void respond(const ApiError& error);
  void stream(HttpResponse head, Pull pull);
  void wake() { exchange_->wake(); }
  void post(std::function<void()> work) { exchange_->post(std::move(work)); }
  // The client went away before the answer had ended.
  void on_close(std::function<void()> closed);
  // A stream has been sent to its end.
  void stream_ended();
  void add_usage(const TokenUsage& usage, double first_token, double last_token);

 private:
  void add_headers(HttpResponse& response) const;
  std::shared_ptr<Exchange> exchange_;
  Setting setting_;
  std::string id_;
  ErrorForm form_;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  std::mutex mutex_;
  CallRecord record_;
};

// A word that no other call of this process has: "chatcmpl-" and 24 letters and digits.
std::string fresh_id(std::string_view prefix);
uint64_t fresh_key();

}  // namespace braid::server
