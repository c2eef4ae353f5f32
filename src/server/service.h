// Service: the model, the engine's loop and what the server knows beside them; what every handler is given.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <ctime>
#include <string>
#include <string_view>

#include "api/model.h"
#include "server/engine_loop.h"
#include "server/fields.h"
#include "server/metrics.h"
#include "server/options.h"
#include "text/dialects/dialect.h"
#include "text/dialects/reasoning_constraint.h"
#include "text/grammar/structure.h"

namespace braid::server {

struct Service {
  // Opens the model. Errors as open_model.
  explicit Service(const ServeOptions& options);

  // An ApiError (NotFound) for a model that is not served here.
  void check_model(std::string_view name) const;
  // The model that a request names, which is one that is served here.
  std::string read_model(Fields& fields) const;
  // The model's and the operator's sampling, under what a request says.
  Sampling sampling() const;

  ServeOptions options;
  OpenModel model;
  Dialect dialect;
  std::shared_ptr<const ReasoningTokens> reasoning_tokens;  // null: the model marks no thoughts
  std::unique_ptr<GrammarCache> grammars;                   // null: the model has no tokenizer
  EngineLoop loop;                                          // after the model, which it uses
  Metrics metrics;
  std::time_t started = std::time(nullptr);
  std::atomic<bool> draining{false};
};

}  // namespace braid::server
