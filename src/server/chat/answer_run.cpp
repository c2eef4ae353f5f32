// SPDX-License-Identifier: Apache-2.0
#include "server/chat/answer_run.h"

#include <mutex>
#include <utility>

#include "server/chat/constraint.h"

namespace braid::server {
namespace {

// The engine's thread adds pieces, the connection's takes them. It lives as long as either may call it.
class AnswerRun : public std::enable_shared_from_this<AnswerRun> {
 public:
  AnswerRun(Service& service, std::shared_ptr<Call> call, std::unique_ptr<AnswerWriter> writer, bool streamed)
      : service_(service), call_(std::move(call)), writer_(std::move(writer)), streamed_(streamed) {}

  void start(std::vector<AnswerJob> jobs) {
    open_ = jobs.size();
    std::vector<Request> requests;
    for (AnswerJob& job : jobs) {
      requests.push_back(std::move(job.request));
      auto reader = std::make_shared<AnswerReader>(std::move(job.reader));
      requests.back().on_event = [self = shared_from_this(), reader](const Event& event) {
        return self->take(*reader, event);
      };
    }
    tickets_ = service_.loop.submit(std::move(requests));
    call_->on_close([self = shared_from_this()] { self->service_.loop.cancel(self->tickets_); });
    if (streamed_)
      call_->stream({.content_type = "text/event-stream", .headers = {{"Cache-Control", "no-cache"}}},
                    [self = shared_from_this()](std::string& out) { return self->pull(out); });
  }

 private:
  // On the engine's thread.
  Verdict take(AnswerReader& reader, const Event& event) {
    std::vector<ChoicePiece> pieces;
    const Verdict verdict = reader.take(event, pieces);
    bool wake = streamed_ && !pieces.empty();
    {
      const std::lock_guard lock(mutex_);
      if (event.token >= 0) {
        last_token_ = call_->seconds();
        if (first_token_ == 0) first_token_ = last_token_;
      }
      for (ChoicePiece& piece : pieces) {
        if (const auto* end = std::get_if<ChoiceEnd>(&piece.what)) {
          --open_;
          call_->add_usage(end->usage, first_token_, last_token_);
        }
        waiting_.push_back(std::move(piece));
      }
      wake = wake || (event.finish && open_ == 0);
    }
    if (!wake) return verdict;
    if (streamed_)
      call_->wake();
    else
      call_->post([self = shared_from_this()] { self->respond(); });
    return verdict;
  }

  // On the connection's thread.
  bool pull(std::string& out) {
    if (!std::exchange(begun_, true)) writer_->begin(out);
    bool last = false;
    for (const ChoicePiece& piece : taken(last)) {
      if (const auto fault = fault_in(piece)) {
        writer_->fail(*fault, out);
        service_.loop.cancel(tickets_);
        call_->stream_ended();
        return false;
      }
      writer_->write(piece, out);
    }
    if (last) {
      writer_->end(out);
      call_->stream_ended();
    }
    return !last;
  }

  void respond() {
    bool last = false;
    std::string body;
    writer_->begin(body);
    for (const ChoicePiece& piece : taken(last)) {
      if (const auto fault = fault_in(piece)) return call_->respond(*fault);
      writer_->write(piece, body);
    }
    writer_->end(body);
    call_->respond(HttpResponse{.body = std::move(body)});
  }

  std::vector<ChoicePiece> taken(bool& last) {
    const std::lock_guard lock(mutex_);
    last = open_ == 0;
    return std::exchange(waiting_, {});
  }

  static std::optional<ApiError> fault_in(const ChoicePiece& piece) {
    const auto* end = std::get_if<ChoiceEnd>(&piece.what);
    if (end == nullptr) return std::nullopt;
    if (end->end == AnswerEnd::Error) return ApiError(Fault::Internal, end->error);
    if (end->end == AnswerEnd::Cancelled) return ApiError(Fault::Unavailable, "the server is shutting down");
    return std::nullopt;
  }

  Service& service_;
  std::shared_ptr<Call> call_;
  std::unique_ptr<AnswerWriter> writer_;
  bool streamed_, begun_ = false;
  std::vector<EngineLoop::Ticket> tickets_;
  std::mutex mutex_;
  std::vector<ChoicePiece> waiting_;
  size_t open_ = 0;  // choices without an end
  double first_token_ = 0, last_token_ = 0;
};

Request engine_request(const AnswerOptions& options, const Prompt& prompt, int choice) {
  Request request{.tokens = prompt.tokens,
                  .sampling = options.sampling,
                  .max_tokens = options.max_tokens,
                  .min_tokens = options.min_tokens,
                  .stop_tokens = options.stop_tokens,
                  .ignore_end = options.ignore_end,
                  .logprobs = options.logprobs.value_or(0),
                  .prompt_logprobs = options.prompt_logprobs,
                  .priority = options.priority,
                  .borders = prompt.borders,
                  .use_cache = options.use_cache};
  if (request.sampling.seed) *request.sampling.seed += static_cast<uint64_t>(choice);
  return request;
}

std::vector<AnswerJob> jobs_of(const Service& service, const AnswerOptions& options, const Prompt& prompt) {
  std::vector<AnswerJob> jobs;
  for (int choice = 0; choice < options.choices; ++choice)
    jobs.push_back({.request = engine_request(options, prompt, choice),
                    .reader = {.tokenizer = service.model.tokenizer ? &*service.model.tokenizer : nullptr,
                               .choice = choice,
                               .prompt_tokens = choice == 0 ? std::ssize(prompt.tokens) : 0,
                               .skip_special = options.skip_special,
                               .include_stop = options.include_stop,
                               .stop = options.stop,
                               .scores = options.logprobs.has_value()}});
  return jobs;
}

}  // namespace

void append_event(std::string& out, std::string_view data, std::string_view event) {
  if (!event.empty()) out.append("event: ").append(event).append("\n");
  out.append("data: ").append(data).append("\n\n");
}

std::vector<AnswerJob> chat_jobs(const Service& service, const ChatRequest& request, const Prompt& prompt) {
  std::vector<AnswerJob> jobs = jobs_of(service, request.answer, prompt);
  Dialect dialect = service.dialect;
  if (request.input.tools.is_null()) dialect.tools = ToolForm::None;
  const bool held = held_to_format(service, request);
  for (AnswerJob& job : jobs) {
    job.request.constraint = chat_constraint(service, request, prompt.start);
    job.reader.parser = AnswerParserOptions{
        .dialect = dialect, .start = prompt.start, .held = held, .tools = request.input.tools, .id_key = fresh_key()};
  }
  return jobs;
}

std::vector<AnswerJob> text_jobs(const Service& service, const AnswerOptions& options,
                                 std::span<const Prompt> prompts) {
  std::vector<AnswerJob> all;
  for (const Prompt& prompt : prompts)
    for (AnswerJob& job : jobs_of(service, options, prompt)) {
      job.request.constraint = text_constraint(service, options.format);
      job.reader.choice = static_cast<int>(all.size());
      all.push_back(std::move(job));
    }
  return all;
}

void run_answer(Service& service, const std::shared_ptr<Call>& call, AnswerPlan plan) {
  std::make_shared<AnswerRun>(service, call, std::move(plan.writer), plan.streamed)->start(std::move(plan.jobs));
}

}  // namespace braid::server
