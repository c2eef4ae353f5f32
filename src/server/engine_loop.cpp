// SPDX-License-Identifier: Apache-2.0
#include "server/engine_loop.h"

#include <fmt/format.h>

#include "base/error.h"
#include "base/log.h"
#include "server/api_error.h"

namespace braid::server {

EngineLoop::EngineLoop(const LoadedModel& model, EngineOptions options, size_t most)
    : engine_(model, std::move(options)), vocabulary_(model.spec.vocabulary), most_(most) {
  publish();
  thread_ = std::jthread([this] { run(); });
}

void EngineLoop::end() {
  if (!thread_.joinable()) return;
  cancel_all();
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  changed_.notify_one();
  thread_.join();
}

std::vector<EngineLoop::Ticket> EngineLoop::submit(std::vector<Request> requests) {
  const int64_t context = engine_.options().context;
  for (const Request& request : requests) {
    check_request(request, vocabulary_);
    if (std::ssize(request.tokens) >= context)
      throw ApiError(Fault::Invalid,
                     fmt::format("the prompt has {} tokens, and with one of the answer the context of {} is too short",
                                 request.tokens.size(), context),
                     "messages", "context_length_exceeded");
  }
  if (requests.size() > most_)
    throw ApiError(Fault::Invalid,
                   fmt::format("{} answers are asked for at once, and no more than {} requests can run and wait here",
                               requests.size(), most_),
                   "n", "invalid_value");
  if (unfinished_.fetch_add(requests.size()) + requests.size() > most_) {
    unfinished_ -= requests.size();
    throw ApiError(Fault::Busy, "too many requests are waiting; try again later", "", "rate_limit_exceeded");
  }
  std::vector<Ticket> tickets;
  std::vector<Command> commands;
  for (Request& request : requests) {
    tickets.push_back(++last_ticket_);
    commands.push_back(Submission{tickets.back(), std::move(request)});
  }
  give(std::move(commands));
  return tickets;
}

void EngineLoop::cancel(std::span<const Ticket> tickets) {
  std::vector<Command> commands;
  for (const Ticket ticket : tickets) commands.push_back(Cancellation{ticket});
  give(std::move(commands));
}

void EngineLoop::cancel_all() { give({CancelAll{}}); }

void EngineLoop::give(std::vector<Command> commands) {
  {
    const std::lock_guard lock(mutex_);
    for (Command& command : commands) commands_.push_back(std::move(command));
  }
  changed_.notify_one();
}

EngineLoop::Load EngineLoop::load() const {
  const std::lock_guard lock(mutex_);
  Load load = load_;
  load.unfinished = unfinished_;
  return load;
}

void EngineLoop::publish() {
  const StatePool& pool = engine_.pool();
  const Engine::Load engine = engine_.load();
  const Load load{.engine = engine,
                  .free_pages = engine.free_pages,
                  .pages = pool.limits().pages,
                  .free_slots = engine.free_slots,
                  .slots = pool.limits().slots};
  const std::lock_guard lock(mutex_);
  load_ = load;
}

void EngineLoop::run() {
  for (bool busy = false;;) {
    std::vector<Command> commands;
    {
      std::unique_lock lock(mutex_);
      if (!busy) changed_.wait(lock, [this] { return ending_ || !commands_.empty(); });
      commands = std::move(commands_);
      commands_.clear();
      if (ending_ && commands.empty() && !busy) break;
    }
    for (Command& command : commands) std::visit([this](auto& known) { obey(std::move(known)); }, command);
    try {
      busy = engine_.step();
    } catch (const std::exception& error) {
      log::error("a step failed: {}", error.what());
    }
    publish();
  }
  engine_.drain();
}

void EngineLoop::obey(Submission submission) {
  const Ticket ticket = submission.ticket;
  auto on_event = std::move(submission.request.on_event);
  const auto end = [this, ticket] {
    running_.erase(ticket);
    --unfinished_;
  };
  submission.request.on_event = [on_event, end](const Event& event) {
    if (event.finish) end();
    return on_event(event);
  };
  try {
    running_[ticket] = engine_.submit(std::move(submission.request));
  } catch (const std::exception& error) {
    end();
    on_event({.finish = FinishReason::Error, .error = error.what()});
  }
}

void EngineLoop::obey(Cancellation cancellation) {
  const auto found = running_.find(cancellation.ticket);
  if (found != running_.end()) engine_.cancel(found->second);
}

void EngineLoop::obey(CancelAll) {
  for (const auto& [ticket, id] : running_) engine_.cancel(id);
}

}  // namespace braid::server
