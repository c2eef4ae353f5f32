// What sequences answer: draws, log-probabilities of prompts, and the events that follow.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <exception>
#include <numeric>

#include "base/log.h"
#include "engine/engine.h"
#include "engine/scorer.h"
#include "engine/transfer.h"

namespace braid {

// One result for each of `chosen`; those whose last row is none of the pass's stay as they are.
std::vector<Drawn> Engine::draw(const Pass& pass, const std::vector<Sequence*>& chosen) {
  std::vector<Drawn> drawn(chosen.size());
  const std::vector<HeadRow>& heads = pass.built.heads;
  if (heads.empty()) return drawn;
  std::vector<DrawRow> rows(heads.size());
  std::vector<std::vector<TokenEntry>> entries(heads.size());
  for (size_t i = 0; i < heads.size(); ++i) {
    Sequence& sequence = *chosen[heads[i].index];
    const int64_t next = sequence.state.length + heads[i].offset + 1;
    if (next < std::ssize(sequence.tokens)) {
      score(sequence, pass.outputs.logits.slice_rows(static_cast<int64_t>(i), 1),
            sequence.tokens[static_cast<size_t>(next)]);
      continue;  // drawn with the others, and left
    }
    constrain(sequence);
    const Sampling& sampling = sequence.request.sampling;
    std::span<const int32_t> banned;
    if (sequence.answered() < sequence.request.min_tokens) banned = sequence.stop_tokens;
    sequence.history.append_entries(banned, entries[i]);
    rows[i] = {.how = {.temperature = sampling.temperature,
                       .top_k = sampling.top_k,
                       .top_p = sampling.top_p,
                       .min_p = sampling.min_p,
                       .key = sequence.key,
                       .position = sequence.tokens.size()},
               .penalties = sampling.penalties,
               .entries = entries[i],
               .allowed = sequence.allowed,
               .logprobs = sequence.request.logprobs};
  }
  std::vector<Drawn> results = sampler_.draw(pass.outputs.logits, rows);
  for (size_t i = 0; i < heads.size(); ++i) drawn[heads[i].index] = std::move(results[i]);  // the last row's stays
  return drawn;
}

// The log-probability of a token of the prompt, from the logits of the one before it.
void Engine::score(Sequence& sequence, Tensor logits, int32_t token) {
  const std::vector<float> row = download_floats(model_.executor, logits);
  PromptLogprob& scored = sequence.prompt_logprobs.emplace_back();
  const double total = token_loss(row, token) + row[static_cast<size_t>(token)];  // log of the sum of e^logit
  const auto logprob = [&](int32_t of) { return static_cast<float>(row[static_cast<size_t>(of)] - total); };
  scored.logprob = logprob(token);
  std::vector<int32_t> order(row.size());
  std::iota(order.begin(), order.end(), 0);
  const auto count = std::min<std::ptrdiff_t>(*sequence.request.prompt_logprobs, std::ssize(order));
  std::partial_sort(order.begin(), order.begin() + count, order.end(), [&](int32_t a, int32_t b) {
    const float first = row[static_cast<size_t>(a)], second = row[static_cast<size_t>(b)];
    return first != second ? first > second : a < b;
  });
  for (std::ptrdiff_t i = 0; i < count; ++i) {
    const int32_t likely = order[static_cast<size_t>(i)];
    scored.top.push_back({.token = likely, .logprob = logprob(likely)});
  }
}

// Asks the sequence's constraint what the next draw may give.
void Engine::constrain(Sequence& sequence) {
  TokenConstraint* constraint = sequence.request.constraint.get();
  sequence.allowed.clear();
  if (constraint == nullptr) return;
  try {
    sequence.complete = constraint->finished();
    if (sequence.complete) return;
    sequence.allowed = sampler_.allowed();
    if (!constraint->narrow(sequence.allowed)) return sequence.allowed.clear();
    if (!constraint->may_end()) return;
    for (const int32_t token : sequence.stop_tokens) {
      const auto word = static_cast<size_t>(token / 32);
      sequence.allowed[word] |= sampler_.allowed()[word] & static_cast<int32_t>(1u << (token % 32));
    }
  } catch (const std::exception& error) {
    sequence.allowed.clear();
    sequence.fault = error.what();
  }
}

// A token of the answer was drawn.
void Engine::take(Sequence& sequence, const Drawn& drawn) {
  if (sequence.answering == Sequence::Clock::time_point{}) sequence.answering = Sequence::Clock::now();
  if (!sequence.fault.empty()) return finish(sequence, FinishReason::Error, {.error = sequence.fault});
  if (sequence.complete) return finish(sequence, FinishReason::Stop);
  if (sequence.request.max_tokens == 0) return finish(sequence, FinishReason::Length);
  if (drawn.token < 0) return finish(sequence, FinishReason::Error, {.error = kNothingToDraw});
  sequence.tokens.push_back(drawn.token);
  sequence.history.add(drawn.token);
  Event event{.token = drawn.token, .logprob = drawn.logprob, .top = drawn.top};
  if (std::ranges::binary_search(sequence.stop_tokens, drawn.token))
    return finish(sequence, FinishReason::Stop, std::move(event));
  if (TokenConstraint* constraint = sequence.request.constraint.get()) {
    try {
      constraint->advance(drawn.token);
      sequence.complete = constraint->finished();
    } catch (const std::exception& error) {
      return finish(sequence, FinishReason::Error, {.error = error.what()});
    }
  }
  const Verdict verdict = deliver(sequence, std::move(event));
  if (sequence.finished) return;
  if (verdict == Verdict::Stop || sequence.complete) return finish(sequence, FinishReason::Stop);
  if (sequence.answered() == sequence.request.max_tokens) return finish(sequence, FinishReason::Length);
  // The last position is computed once its token is known, so an answer may reach one token beyond it.
  if (std::ssize(sequence.tokens) > options_.context) finish(sequence, FinishReason::Context);
}

namespace {

// Seconds from `from` to `to`, each of which may not have come yet.
double seconds(Sequence::Clock::time_point from, Sequence::Clock::time_point to) {
  constexpr Sequence::Clock::time_point kNever{};
  if (from == kNever) return 0;
  return std::chrono::duration<double>((to == kNever ? Sequence::Clock::now() : to) - from).count();
}

Usage usage_of(const Sequence& sequence) {
  Usage usage = sequence.usage;
  usage.answered = sequence.answered();
  usage.queued_seconds = seconds(sequence.submitted, sequence.started);
  usage.prefill_seconds = seconds(sequence.started, sequence.answering);
  usage.decode_seconds = seconds(sequence.answering, {});
  return usage;
}

}  // namespace

Verdict Engine::deliver(Sequence& sequence, Event event) {
  event.request = sequence.id;
  if (event.finish || sequence.answered() == 1) event.usage = usage_of(sequence);
  event.prompt_logprobs = std::exchange(sequence.prompt_logprobs, {});
  if (!sequence.request.on_event) return Verdict::Continue;
  try {
    return sequence.request.on_event(event);
  } catch (const std::exception& error) {
    log::error("callback failed request={} error=\"{}\"", sequence.id, error.what());
    if (!event.finish) finish(sequence, FinishReason::Error, {.error = error.what()});
    return Verdict::Stop;
  }
}

void Engine::finish(Sequence& sequence, FinishReason reason, Event event) {
  const bool whole = reason == FinishReason::Stop || reason == FinishReason::Length || reason == FinishReason::Context;
  // An answer's tokens were computed one by one, which a deterministic engine does not give to prompts.
  if (whole && sequence.request.use_cache && !options_.deterministic)
    cache_.adopt(std::span(sequence.tokens).first(static_cast<size_t>(sequence.state.length)), sequence.state);
  else
    pool_.release(sequence.state);
  if (sequence.parked) cache_.unreserve(static_cast<int64_t>(sequence.parked->bytes.size()));
  sequence.parked.reset();
  sequence.finished = true;
  event.finish = reason;
  deliver(sequence, std::move(event));
}

}  // namespace braid
