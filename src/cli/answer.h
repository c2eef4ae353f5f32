// Asks the engine for one answer after the other, and shows each as it streams.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "api/model.h"
#include "cli/options.h"
#include "engine/engine.h"

namespace braid::cli {

struct Answer {
  std::string text, reasoning;  // without marks
  FinishReason finish = FinishReason::Stop;
  int64_t prompt_tokens = 0, answer_tokens = 0;
  double prefill_seconds = 0, decode_seconds = 0;
};

// Receives what is to be shown, in order.
using Show = std::function<void(std::string_view text, bool reasoning)>;

// One conversation's worth of answers; the state of the last one is kept, so that a prompt that goes on from it is not
// read again.
class Answerer {
 public:
  Answerer(const OpenModel& model, const SamplingOptions& options);
  // `prompt` is the whole rendered text. Ends early, with FinishReason::Cancelled, when `interrupted` becomes true.
  // An Input error when the prompt is empty or does not fit the context.
  Answer ask(const std::string& prompt, const Show& show, const std::atomic<bool>& interrupted);
  void forget();

 private:
  const OpenModel& model_;
  SamplingOptions options_;
  Sampling sampling_;
  Engine engine_;
  std::optional<RequestId> kept_;
};

}  // namespace braid::cli
