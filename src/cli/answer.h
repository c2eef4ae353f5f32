// Asks the engine for one answer after the other, and shows each as it streams.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "api/model.h"
#include "cli/options.h"
#include "engine/engine.h"

namespace braid::cli {

struct Prompt {
  std::string text;  // rendered; empty where only ids were given
  std::vector<int32_t> ids;
};

struct Answer {
  std::string text, reasoning;  // without marks
  std::vector<int32_t> ids;     // with the token that ended it
  FinishReason finish = FinishReason::Stop;
  double prefill_seconds = 0, decode_seconds = 0;
};

// Receives what is to be shown, in order.
using Show = std::function<void(std::string_view text, bool reasoning)>;

// Answers one prompt after the other; what one has in common with an earlier one is not read again.
class Answerer {
 public:
  Answerer(const OpenModel& model, const SamplingOptions& options);
  // The prompt of a text that is whole: a rendered template, or to be completed as it is.
  Prompt prompt_of(const std::string& text) const;
  // Ends early, with FinishReason::Cancelled, when `interrupted` becomes true. An Input error when the prompt is empty
  // or does not fit the context. Without a tokenizer ids are shown.
  Answer ask(const Prompt& prompt, const Show& show, const std::atomic<bool>& interrupted);

 private:
  const OpenModel& model_;
  SamplingOptions options_;
  Sampling sampling_;
  Engine engine_;
};

}  // namespace braid::cli
