// SPDX-License-Identifier: Apache-2.0
#include "cli/batch.h"

#include <chrono>
#include <condition_variable>
#include <deque>
#include <filesystem>
#include <functional>
#include <limits>
#include <mutex>
#include <utility>

#include "base/error.h"
#include "base/interrupt.h"
#include "base/progress.h"
#include "cli/batch_file.h"
#include "cli/input.h"
#include "server/http/exchange.h"
#include "server/routes.h"
#include "server/service.h"
#include "weights/model_folder.h"

namespace braid::cli {
namespace {

// Work that other threads leave for the one that waits here.
class WorkQueue {
 public:
  void post(std::function<void()> work) {
    {
      const std::lock_guard lock(mutex_);
      waiting_.push_back(std::move(work));
    }
    changed_.notify_one();
  }
  // Does what is there, after a wait for it. Throws Interrupted after Ctrl-C.
  void run_some() {
    std::deque<std::function<void()>> taken;
    {
      std::unique_lock lock(mutex_);
      while (!changed_.wait_for(lock, std::chrono::milliseconds(50), [this] { return !waiting_.empty(); }))
        check_interrupted();
      taken = std::exchange(waiting_, {});
    }
    for (const auto& work : taken) work();
  }
  // What waits may hold the queue itself.
  void forget() {
    std::deque<std::function<void()>> taken;  // ends behind the lock
    const std::lock_guard lock(mutex_);
    taken.swap(waiting_);
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> waiting_;
};

// A request that came from a line instead of a socket. Only the thread of the queue touches it, but for `post`.
class LineExchange : public server::Exchange {
 public:
  using Done = std::function<void(const server::HttpResponse&)>;
  LineExchange(const BatchLine& line, std::shared_ptr<WorkQueue> queue, Done done)
      : request_{.method = "POST", .path = line.url, .body = line.body},
        queue_(std::move(queue)),
        done_(std::move(done)) {}
  const server::HttpRequest& request() const override { return request_; }
  void respond(server::HttpResponse response) override {
    if (done_) post([done = std::exchange(done_, nullptr), response = std::move(response)] { done(response); });
  }
  void stream(server::HttpResponse, server::Pull) override { CHECK(false, "lines that stream are refused before"); }
  void wake() override {}
  void post(std::function<void()> work) override { queue_->post(std::move(work)); }
  void on_close(std::function<void()>) override {}  // a line does not go away

 private:
  server::HttpRequest request_;
  std::shared_ptr<WorkQueue> queue_;
  Done done_;
};

Json answer_head(const BatchLine& line) {
  return {{"id", server::fresh_id("batch_req_")},
          {"custom_id", line.custom_id.empty() ? Json() : Json(line.custom_id)}};
}

Json refused(const BatchLine& line) {
  Json answer = answer_head(line);
  answer["response"] = nullptr;
  answer["error"] = {{"code", "invalid_request"}, {"message", line.fault}, {"line", line.number}};
  return answer;
}

Json answered(const BatchLine& line, const server::HttpResponse& response) {
  Json answer = answer_head(line);
  std::string request_id;
  for (const server::HttpHeader& header : response.headers)
    if (header.name == "X-Request-Id") request_id = header.value;
  answer["response"] = {
      {"status_code", response.status}, {"request_id", request_id}, {"body", parse_json(response.body, "the answer")}};
  answer["error"] = nullptr;
  return answer;
}

class Batch {
 public:
  Batch(const server::ServeOptions& options, std::vector<BatchLine> lines, BatchOutput& output)
      : service_(options), router_(service_), lines_(std::move(lines)), output_(output) {
    server::add_openai_routes(router_, service_);
  }
  ~Batch() {
    service_.loop.end();
    queue_->forget();
  }

  void run() {
    Progress progress("answering", lines_.size(), Progress::Unit::Items);
    // Enough that a sequence that ends is followed at once.
    const size_t window = 2 * static_cast<size_t>(service_.options.parallel);
    for (size_t next = 0, before = 0; next < lines_.size() || running_ > 0;) {
      check_interrupted();
      while (next < lines_.size() && running_ < window) start(lines_[next++]);
      if (running_ > 0 && ended_ == before) queue_->run_some();
      progress.advance(ended_ - std::exchange(before, ended_));
    }
    output_.finish();
  }

  size_t failed() const { return failed_; }
  int64_t prompt_tokens() const { return prompt_tokens_; }
  int64_t answer_tokens() const { return answer_tokens_; }

 private:
  void start(const BatchLine& line) {
    if (!line.fault.empty()) {
      ++failed_, ++ended_;
      return output_.append(line, refused(line));
    }
    ++running_;
    router_.handle(std::make_shared<LineExchange>(
        line, queue_, [this, &line](const server::HttpResponse& response) { end(line, response); }));
  }

  void end(const BatchLine& line, const server::HttpResponse& response) {
    --running_, ++ended_;
    failed_ += response.status >= 400 ? 1 : 0;
    const Json answer = answered(line, response);
    const Json& body = answer["response"]["body"];
    if (const auto usage = body.find("usage"); usage != body.end()) {
      prompt_tokens_ += (*usage)["prompt_tokens"].get<int64_t>();
      answer_tokens_ += (*usage)["completion_tokens"].get<int64_t>();
    }
    output_.append(line, answer);
  }

  server::Service service_;
  server::Router router_;
  std::vector<BatchLine> lines_;
  BatchOutput& output_;
  std::shared_ptr<WorkQueue> queue_ = std::make_shared<WorkQueue>();
  size_t running_ = 0, ended_ = 0, failed_ = 0;
  int64_t prompt_tokens_ = 0, answer_tokens_ = 0;
};

}  // namespace

void run_batch(BatchOptions options) {
  server::ServeOptions& serve = options.serve;
  serve.names = {std::filesystem::canonical(find_model(serve.open.model)).filename().string(), serve.open.model};
  serve.queue = std::numeric_limits<int32_t>::max() - serve.parallel;  // a line may ask for many choices
  catch_interrupts(Again::Ends);
  std::vector<BatchLine> lines = read_batch(read_text(options.in), serve.names.front());
  if (lines.empty()) fail("{}: holds no request", options.in);
  BatchOutput output(options.out);
  const size_t all = lines.size();
  std::erase_if(lines, [&](const BatchLine& line) { return output.has(line); });
  const size_t asked = lines.size();
  if (asked == 0 && output.failed_before() > 0)
    fail("{} requests, all of them answered before, {} with a failure; another --out asks them again", all,
         output.failed_before());
  if (asked == 0) return fmt::print("{} requests, all of them answered before\n", all);
  Batch batch(serve, std::move(lines), output);
  const auto start = std::chrono::steady_clock::now();
  batch.run();
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  fmt::print("{} requests: {} answered before, {} now, {} failed; {} tokens read, {} answered in {:.1f} s\n", all,
             all - asked, asked - batch.failed(), batch.failed(), batch.prompt_tokens(), batch.answer_tokens(),
             seconds);
  if (batch.failed() > 0) fail("{} of {} requests failed; {} says why", batch.failed(), asked, options.out);
}

}  // namespace braid::cli
