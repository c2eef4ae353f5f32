// What is asked of the engine, and what it answers, token by token.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ops/sampling.h"
#include "text/constraint.h"

namespace braid {

// How tokens are drawn (semantics 20). The defaults are neutral: the model's own distribution.
struct Sampling {
  float temperature = 1.0f;  // 0: the likeliest token
  int32_t top_k = 0;         // 0: off
  float top_p = 1.0f;        // 1: off
  float min_p = 0.0f;        // 0: off
  Penalties penalties;
  std::vector<std::pair<int32_t, float>> logit_bias;  // token, what is added to its logit; -infinity bans it
  std::optional<uint64_t> seed;                       // absent: a random one
};

using RequestId = uint64_t;

enum class FinishReason : uint8_t { Stop, Length, Context, Cancelled, Error };
std::string_view name_of(FinishReason reason);  // "stop", "length", "context", "cancelled", "error"

struct TokenLogprob {
  int32_t token = -1;
  float logprob = 0.0f;
  bool operator==(const TokenLogprob&) const = default;
};

// Why not more of a prompt came from the cache.
enum class CacheLimit : uint8_t {
  None,      // all but what has to be computed for the first token was there
  Off,       // the request or the engine does not use the cache
  Logprobs,  // log-probabilities of the prompt need its rows
  Unknown,   // what follows was not computed before, or is another text
  Dropped,   // it was known, and its state is no longer held, or was not kept there
};
std::string_view name_of(CacheLimit limit);  // "none", "off", "logprobs", "unknown", "dropped"

// What a request cost so far.
struct Usage {
  int64_t prompt = 0, answered = 0;  // tokens; the one that ended the answer counts as answered
  int64_t cached = 0;                // of the prompt, taken from the cache
  int64_t known = 0;                 // of the prompt, that some earlier request began with; at least `cached`
  int64_t computed = 0;              // rows, with those that a preemption made the engine compute again
  CacheLimit limit = CacheLimit::None;
  int32_t preemptions = 0;
  double queued_seconds = 0, prefill_seconds = 0, decode_seconds = 0;  // until it began, to the first token, after it
};

// A token of the prompt, given those before it.
struct PromptLogprob {
  float logprob = 0.0f;
  std::vector<TokenLogprob> top;
};

// Every request gets events without `finish`, one for each token of the answer, and then exactly one with it. The last
// one carries the stop token that ended the answer, or token -1 where something else did.
struct Event {
  RequestId request = 0;
  int32_t token = -1;
  float logprob = 0.0f;
  std::vector<TokenLogprob> top;  // the likeliest tokens, descending, as many as the request asked for
  std::optional<FinishReason> finish;
  std::string error;           // one line, where finish is Error
  std::optional<Usage> usage;  // with the first token, and with `finish`
  // Of prompt tokens [1, prompt), with the first event, where the request asked for them.
  std::vector<PromptLogprob> prompt_logprobs;
};

enum class Verdict : uint8_t { Continue, Stop };

struct Request {
  std::vector<int32_t> tokens;  // the whole prompt, also where the cache has its beginning
  Sampling sampling;
  std::optional<int64_t> max_tokens;       // of the answer; absent: up to the context; 0: nothing
  int64_t min_tokens = 0;                  // stop tokens are banned until the answer has so many
  std::vector<int32_t> stop_tokens;        // beside the engine's end tokens
  bool ignore_end = false;                 // end tokens are tokens like others
  int32_t logprobs = 0;                    // how many of the likeliest tokens each event names, at most kMaxLogprobs
  std::optional<int32_t> prompt_logprobs;  // likeliest tokens named beside each token of the prompt
  std::shared_ptr<TokenConstraint> constraint;  // what may be drawn; null: everything
  int32_t priority = 0;                         // lower ones are served first
  // Lengths of the prompt where another one is likely to part from it: behind the system and tools part, and behind the
  // last token that the next turn renders alike. State is kept there. Any order; those outside of the prompt mean
  // nothing.
  std::vector<int64_t> borders;
  bool use_cache = true;  // begins with what earlier requests left, and leaves its own state to later ones
  // Called on the engine's thread. Stop ends the answer with FinishReason::Stop (stop strings, a full buffer); the
  // verdict on the last event means nothing. It may submit and cancel; an exception ends its own request alone.
  std::function<Verdict(const Event&)> on_event;
};

inline constexpr int32_t kMaxLogprobs = 20;

// Refuses, as an Input error that names the field, what cannot be computed: numbers out of range, token ids that the
// vocabulary does not have, an empty prompt.
void check_request(const Request& request, int64_t vocabulary);

}  // namespace braid
