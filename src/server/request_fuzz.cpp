// Bodies of requests through the routes and the engine with the bundled model, without a socket: no crash, no hang, and
// never an answer that blames the server. The first byte chooses the route.
// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <cstdlib>
#include <deque>
#include <mutex>

#include "base/log.h"
#include "server/routes.h"
#include "server/service.h"

namespace {

using namespace braid::server;

// Runs what the server hands over on the thread that waits for the answer, as a connection does.
class Direct : public Exchange, public std::enable_shared_from_this<Direct> {
 public:
  explicit Direct(HttpRequest request) : request_(std::move(request)) {}
  const HttpRequest& request() const override { return request_; }
  void respond(HttpResponse response) override {
    post([this, status = response.status] { finish(status); });
  }
  void stream(HttpResponse head, Pull pull) override {
    post([this, status = head.status, pull = std::move(pull)]() mutable {
      status_ = status;
      pull_ = std::move(pull);
      pump();
    });
  }
  void wake() override {
    post([this] { pump(); });
  }
  void post(std::function<void()> work) override {
    {
      const std::lock_guard lock(mutex_);
      work_.push_back(std::move(work));
    }
    changed_.notify_one();
  }
  void on_close(std::function<void()>) override {}

  // The status, once the answer has ended. Aborts where it does not.
  int wait() {
    std::unique_lock lock(mutex_);
    while (!over_) {
      if (!changed_.wait_for(lock, std::chrono::seconds(60), [this] { return !work_.empty(); })) std::abort();
      const std::function<void()> work = std::move(work_.front());
      work_.pop_front();
      lock.unlock();
      work();
      lock.lock();
    }
    return status_;
  }

 private:
  void finish(int status) { status_ = status, over_ = true, pull_ = nullptr; }
  void pump() {
    if (!pull_) return;
    text_.clear();
    if (!pull_(text_)) finish(status_);
  }

  HttpRequest request_;
  Pull pull_;
  std::string text_;
  int status_ = 0;
  bool over_ = false;  // with status_, pull_ and text_: of the waiting thread alone
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> work_;
};

// One for all inputs, and never taken down: its thread may be in a step when the process ends.
Router& router() {
  static Router* const made = [] {
    ServeOptions options;
    options.open.model = "models/pocket";
    options.open.context = 128;
    options.max_tokens = 4;
    options.parallel = options.queue = 4;  // so that no input takes long
    spdlog::set_level(spdlog::level::off);
    auto* service = new Service(options);
    auto* routes = new Router(*service);
    add_openai_routes(*routes, *service);
    add_anthropic_routes(*routes, *service);
    add_responses_routes(*routes, *service);
    add_token_routes(*routes, *service);
    return routes;
  }();
  return *made;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  constexpr std::array kPaths{"/v1/chat/completions",      "/v1/completions", "/v1/messages",
                              "/v1/messages/count_tokens", "/v1/responses",   "/tokenize",
                              "/detokenize"};
  if (size == 0) return 0;
  const auto exchange = std::make_shared<Direct>(
      HttpRequest{.method = "POST",
                  .path = kPaths[data[0] % kPaths.size()],
                  .body = std::string(reinterpret_cast<const char*>(data + 1), size - 1)});
  router().handle(exchange);
  const int status = exchange->wait();
  if (status >= 500 && status != 503) std::abort();
  return 0;
}
