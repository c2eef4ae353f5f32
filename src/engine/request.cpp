// SPDX-License-Identifier: Apache-2.0
#include "engine/request.h"

#include <cmath>

#include "base/error.h"

namespace braid {
namespace {

void check_number(const char* field, double value, bool fine, const char* expected) {
  if (!fine) fail("{}: expected {}, found {}", field, expected, value);
}

void check_token(const char* field, int32_t token, int64_t vocabulary) {
  if (token < 0 || token >= vocabulary)
    fail("{}: token {} is outside of the vocabulary of {}", field, token, vocabulary);
}

void check_sampling(const Sampling& sampling, int64_t vocabulary) {
  const auto within = [](float value, float low, float high) { return value >= low && value <= high; };
  const Penalties& penalties = sampling.penalties;
  check_number("temperature", sampling.temperature,
               within(sampling.temperature, 0, HUGE_VALF) && std::isfinite(sampling.temperature), "a number from 0");
  check_number("top_k", sampling.top_k, sampling.top_k >= 0, "a whole number from 0");
  check_number("top_p", sampling.top_p, within(sampling.top_p, 0, 1), "a number from 0 to 1");
  check_number("min_p", sampling.min_p, within(sampling.min_p, 0, 1), "a number from 0 to 1");
  check_number("repetition_penalty", penalties.repetition,
               penalties.repetition > 0 && std::isfinite(penalties.repetition), "a number above 0");
  check_number("frequency_penalty", penalties.frequency, std::isfinite(penalties.frequency), "a number");
  check_number("presence_penalty", penalties.presence, std::isfinite(penalties.presence), "a number");
  for (const auto& [token, bias] : sampling.logit_bias) {
    check_token("logit_bias", token, vocabulary);
    check_number("logit_bias", bias, bias < HUGE_VALF, "a finite number or -infinity");
  }
}

}  // namespace

void check_request(const Request& request, int64_t vocabulary) {
  if (request.tokens.empty()) fail("the prompt is empty");
  for (const int32_t token : request.tokens) check_token("prompt", token, vocabulary);
  for (const int32_t token : request.stop_tokens) check_token("stop_tokens", token, vocabulary);
  check_sampling(request.sampling, vocabulary);
  if (request.max_tokens && *request.max_tokens < 0)
    fail("max_tokens: expected at least 0, found {}", *request.max_tokens);
  if (request.min_tokens < 0) fail("min_tokens: expected at least 0, found {}", request.min_tokens);
  if (request.logprobs < 0 || request.logprobs > kMaxLogprobs)
    fail("logprobs: expected 0 to {}, found {}", kMaxLogprobs, request.logprobs);
  const int32_t of_prompt = request.prompt_logprobs.value_or(0);
  if (of_prompt < 0 || of_prompt > kMaxLogprobs)
    fail("prompt_logprobs: expected 0 to {}, found {}", kMaxLogprobs, of_prompt);
}

std::string_view name_of(FinishReason reason) {
  switch (reason) {
    case FinishReason::Stop:
      return "stop";
    case FinishReason::Length:
      return "length";
    case FinishReason::Context:
      return "context";
    case FinishReason::Cancelled:
      return "cancelled";
    case FinishReason::Error:
      return "error";
  }
  return "";
}

std::string_view name_of(CacheLimit limit) {
  switch (limit) {
    case CacheLimit::None:
      return "none";
    case CacheLimit::Off:
      return "off";
    case CacheLimit::Logprobs:
      return "logprobs";
    case CacheLimit::Unknown:
      return "unknown";
    case CacheLimit::Dropped:
      return "dropped";
  }
  return "";
}

}  // namespace braid
