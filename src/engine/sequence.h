// One request on its way: its tokens, the state held for them, and how the next one is drawn.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "engine/request.h"
#include "engine/token_history.h"
#include "state/pool.h"
#include "state/prefix_cache.h"

namespace braid {

// `tokens` are the prompt, then the answer. The first state.length of them are held; the rest, at least one, is still
// to be computed, whether as a prompt, as one drawn token, or again after a preemption.
struct Sequence {
  RequestId id = 0;
  Request request;
  uint64_t key = 0;                  // of random numbers
  std::vector<int32_t> stop_tokens;  // all of them, each once
  TokenHistory history;
  std::vector<int32_t> tokens;
  int64_t prompt = 0;  // how many of them were asked
  SequenceState state;
  bool cancelled = false, finished = false;

  // Waiting: what it would begin with.
  PrefixCache::Hit hit;
  std::optional<Snapshot> parked;  // its own state, in host memory since a preemption
  std::vector<int64_t> marks;      // lengths of the prompt where state is kept, ascending

  std::vector<int32_t> allowed;  // what the next draw may give, where the constraint narrows it
  // What the constraint says of the next draw: the answer is over, or what went wrong.
  bool complete = false;
  std::string fault;
  std::vector<PromptLogprob> prompt_logprobs;

  Usage usage;
  using Clock = std::chrono::steady_clock;
  Clock::time_point submitted, started, answering;  // the latter two: when the first rows ran, and the first token came

  bool running() const { return state.slot >= 0; }
  int64_t answered() const { return std::ssize(tokens) - prompt; }
  // Log-probabilities of its prompt are still to come.
  bool scoring() const { return request.prompt_logprobs && answered() == 0; }
};

}  // namespace braid
