// Logits, hidden rows and layers' outputs of given texts: for verification, perplexity and comparisons.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "engine/step_runner.h"
#include "state/pool.h"

namespace braid {

struct ScoreOptions {
  int64_t context = 0;        // of the longest document
  int64_t chunk = 256;        // every document is computed in ranges of so many tokens
  int64_t step_tokens = 256;  // rows of a step over all documents; at least a chunk
  int32_t sequences = 1;      // documents computed at once
  int drafts = 0;             // passes of the drafter for each document of `drafts`
  bool hidden = false;        // hand out hidden rows as well
  bool poison = false;        // free memory holds NaN: for tests
};

struct ScoreDocument {
  std::span<const int32_t> tokens;
  std::vector<int64_t> positions;  // whose logits are wanted, ascending
};

// Spans live until the callback returns.
struct ScoredRow {
  size_t document = 0;
  int64_t position = 0;
  std::span<const float> logits;  // [vocabulary]
  std::span<const float> hidden;  // [width], where asked for
};

// Rows [position, position + count) of the stream at a layer's border (see Tap).
struct TappedRows {
  size_t document = 0;
  int layer = 0;
  int64_t position = 0, count = 0;
  std::span<const float> values;  // [count, width]
};

struct DraftedRow {
  int depth = 0;  // 1: the drafter after the trunk, 2: the drafter after itself ...
  int64_t position = 0;
  std::span<const float> logits;
};

struct DocumentLoss {
  double sum = 0.0;    // of -log p(token | all before), natural logarithm
  int64_t tokens = 0;  // all but the first
};

// -log softmax(logits)[token], in double.
double token_loss(std::span<const float> logits, int32_t token);

// Not thread-safe. Holds its own state; every document starts afresh.
class Scorer {
 public:
  Scorer(const LoadedModel& model, const ScoreOptions& options);

  // Positions of a document come in order; documents are interleaved. A document that is empty, longer than the context
  // or not in the vocabulary is an Input error.
  void run(std::span<const ScoreDocument> documents, const std::function<void(const ScoredRow&)>& on_row,
           const std::function<void(const TappedRows&)>& on_tap = nullptr);
  // Loss of each document, alone.
  std::vector<DocumentLoss> losses(std::span<const std::span<const int32_t>> documents);
  // Teacher-forced drafts of one document, chunk by chunk: at depth 1, row i pairs the trunk's hidden row i with
  // token i + 1; at depth d, the row i of depth d - 1 with token i + d. Each depth is a pass whose keys and values are
  // its own rows alone. The model must have a drafter.
  void drafts(std::span<const int32_t> tokens, const std::function<void(const DraftedRow&)>& on_row);

 private:
  struct Reading;
  struct Readings;
  // One chunk, positions [begin, end); states[d - 1] is the sequence of depth d.
  struct Drafting {
    std::span<const Reading> states;
    std::span<const int32_t> tokens;
    int64_t begin, end;
    const std::function<void(const DraftedRow&)>& on_row;
  };
  void check(std::span<const int32_t> tokens) const;
  std::vector<SequenceRows> next_rows(std::span<const ScoreDocument> documents, std::vector<Reading>& list) const;
  void hand_out(const Pass& pass, std::span<const Reading> list, const std::function<void(const ScoredRow&)>& on_row);
  void draft(const Drafting& drafting, int depth, Tensor hidden);

  LoadedModel model_;
  ScoreOptions options_;
  StatePool pool_;
  StepRunner runner_;
};

}  // namespace braid
