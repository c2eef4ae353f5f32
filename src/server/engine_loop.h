// EngineLoop: the thread that owns the engine, and the queue through which all other threads speak to it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <thread>
#include <unordered_map>
#include <variant>
#include <vector>

#include "engine/engine.h"

namespace braid::server {

// Every public function may be called from any thread. Commands reach the engine in the order they were given, before
// its next step; with nothing to compute the thread sleeps.
class EngineLoop {
 public:
  using Ticket = uint64_t;

  // `most`: requests that may be unfinished at a time, running and waiting.
  EngineLoop(const LoadedModel& model, EngineOptions options, size_t most);
  ~EngineLoop() { end(); }
  // Cancels what is unfinished; every request has had its last event when this returns. Later ones are refused.
  void end();

  // Takes all of the requests or none: an ApiError (Busy) where too many are unfinished, an Input error for one that
  // cannot be served. Events follow on the engine's thread.
  std::vector<Ticket> submit(std::vector<Request> requests);
  // Tickets that are finished or unknown are left alone.
  void cancel(std::span<const Ticket> tickets);
  void cancel_all();

  struct Load {
    Engine::Load engine;
    size_t unfinished = 0;
    int64_t free_pages = 0, pages = 0;
    int32_t free_slots = 0, slots = 0;
  };
  Load load() const;  // as it was after the last step
  const EngineOptions& options() const { return engine_.options(); }

 private:
  struct Submission {
    Ticket ticket;
    Request request;
  };
  struct Cancellation {
    Ticket ticket;
  };
  struct CancelAll {};
  using Command = std::variant<Submission, Cancellation, CancelAll>;

  void give(std::vector<Command> commands);
  void run();
  void obey(Submission submission);
  void obey(Cancellation cancellation);
  void obey(CancelAll);
  void publish();

  Engine engine_;
  int64_t vocabulary_;
  size_t most_;
  std::atomic<size_t> unfinished_{0};
  std::atomic<Ticket> last_ticket_{0};
  std::unordered_map<Ticket, RequestId> running_;  // of the engine's thread alone

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Command> commands_;
  Load load_;
  bool ending_ = false;
  std::jthread thread_;
};

}  // namespace braid::server
