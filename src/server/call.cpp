// SPDX-License-Identifier: Apache-2.0
#include "server/call.h"

#include <algorithm>
#include <random>

#include "server/openai/error.h"

namespace braid::server {
namespace {

constexpr int kClientGone = 499;
constexpr size_t kLongestId = 128;

// What a client calls its request is echoed only where it cannot break a header or a line of the log.
std::string id_of(const HttpRequest& request) {
  const std::string_view given = request.header("x-request-id");
  const bool plain = std::ranges::all_of(given, [](char c) { return c > ' ' && c < '\x7f' && c != '"'; });
  return plain && !given.empty() && given.size() <= kLongestId ? std::string(given) : fresh_id("req_");
}

}  // namespace

uint64_t fresh_key() {
  thread_local std::mt19937_64 random{std::random_device{}()};
  return random();
}

std::string fresh_id(std::string_view prefix) {
  static constexpr std::string_view kLetters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";
  std::string out(prefix);
  for (int i = 0; i < 24; ++i) out += kLetters[fresh_key() % kLetters.size()];
  return out;
}

Call::Call(std::shared_ptr<Exchange> exchange, Setting setting)
    : exchange_(std::move(exchange)), setting_(std::move(setting)), id_(id_of(request())), form_(openai_error) {
  record_.id = id_;
  record_.method = request().method;
  record_.status = kClientGone;
}

Call::~Call() {
  record_.seconds = seconds();
  setting_.finish(record_);
}

double Call::seconds() const {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
}

void Call::set_route(std::string path, ErrorForm form) {
  record_.path = std::move(path);
  form_ = form;
}

void Call::set_key(std::string name) { record_.key = std::move(name); }

void Call::add_headers(HttpResponse& response) const {
  response.headers.push_back({"X-Request-Id", id_});
  response.headers.push_back({"Request-Id", id_});  // where clients of the messages API look for it
  for (const HttpHeader& header : setting_.headers) response.headers.push_back(header);
}

void Call::respond(HttpResponse response) {
  {
    const std::lock_guard lock(mutex_);
    record_.status = response.status;
  }
  add_headers(response);
  exchange_->respond(std::move(response));
}

void Call::respond(const ApiError& error) { respond(form_(error)); }

void Call::stream(HttpResponse head, Pull pull) {
  add_headers(head);
  exchange_->stream(std::move(head), std::move(pull));
}

void Call::on_close(std::function<void()> closed) {
  exchange_->on_close([self = shared_from_this(), closed = std::move(closed)] {
    {
      const std::lock_guard lock(self->mutex_);
      self->record_.status = kClientGone;
    }
    closed();
  });
}

void Call::stream_ended() {
  const std::lock_guard lock(mutex_);
  record_.status = 200;
}

void Call::add_usage(const TokenUsage& usage, double first_token, double last_token) {
  const std::lock_guard lock(mutex_);
  server::add_usage(record_.usage, usage);
  if (first_token > 0 && (record_.first_token == 0 || first_token < record_.first_token))
    record_.first_token = first_token;
  record_.last_token = std::max(record_.last_token, last_token);
}

}  // namespace braid::server
