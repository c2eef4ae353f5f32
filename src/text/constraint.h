// What may come next in one answer, beyond what the model likes: grammars, forced tokens, budgets.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>

namespace braid {

// One answer's own; copies of a request need one each. The engine calls it on its thread, for each token of the answer:
// finished(), narrow() and may_end() before the draw, advance() after it. An exception ends its own request with
// FinishReason::Error. Constraints of one answer are composed by calling each in turn.
class TokenConstraint {
 public:
  virtual ~TokenConstraint() = default;

  // Takes out of the set what may not come next: bit i % 32 of word i / 32 stands for token i, as in MaskTokens.
  // Returns whether the set may have changed; false costs the draw nothing. The words cover the model's vocabulary.
  virtual bool narrow(std::span<int32_t> words) = 0;
  // The answer may end here: its stop tokens may be drawn, whatever `narrow` took out. Where this is false a stop token
  // is drawn only if `narrow` leaves it in the set.
  virtual bool may_end() const = 0;
  // Nothing may follow: the answer ends with FinishReason::Stop, and no further token is drawn.
  virtual bool finished() const = 0;
  // `token` was drawn and belongs to the answer. A stop token that ends the answer does not.
  virtual void advance(int32_t token) = 0;
  // Undoes the last `tokens` calls of advance.
  virtual void rollback(int64_t tokens) = 0;
};

}  // namespace braid
