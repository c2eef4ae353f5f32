// ReasoningConstraint: lets an answer think freely, up to a budget, and holds only what follows to another constraint.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "text/constraint.h"
#include "text/dialects/dialect.h"
#include "text/tokenizer/tokenizer.h"

namespace braid {

// What the constraint has to know of a vocabulary: made once for a model, shared by all requests. `tokenizer` outlives
// it.
struct ReasoningTokens {
  ReasoningTokens(const Tokenizer& tokenizer, const Dialect& dialect, std::span<const int32_t> end_tokens);

  const Tokenizer& tokenizer;
  ReasoningMarks marks;
  std::optional<int32_t> open;  // absent: not one token
  std::vector<int32_t> close;   // what is forced
  std::vector<int32_t> space;   // tokens of white space alone
  std::vector<int32_t> barred;  // must not come among thoughts where a constraint waits: end tokens, marks of calls
};

struct ReasoningLimits {
  ReasoningStart start = ReasoningStart::Unopened;
  std::optional<int64_t> budget;  // tokens of thoughts; then the closing mark is forced. Absent: no limit
};

// Thoughts begin as the prompt left them, or with an opening mark that is the first token of the answer. `answer`
// (null: nothing) sees the tokens after the closing mark, and after as many as kGap tokens of white space behind it;
// without thoughts it sees all. While it waits, the answer cannot end, nor can a call begin.
class ReasoningConstraint : public TokenConstraint {
 public:
  static constexpr int kGap = 4;

  ReasoningConstraint(std::shared_ptr<const ReasoningTokens> tokens, ReasoningLimits limits,
                      std::unique_ptr<TokenConstraint> answer);
  bool narrow(std::span<int32_t> words) override;
  bool may_end() const override;
  bool finished() const override;
  void advance(int32_t token) override;
  void rollback(int64_t tokens) override;

 private:
  enum class Phase : uint8_t { Start, Thoughts, Gap, Answer };
  struct Place {
    Phase phase = Phase::Start;
    int gap = 0;           // tokens of white space behind the mark
    int64_t thoughts = 0;  // tokens
    size_t forced = 0;     // tokens of the closing mark that were forced
    std::string tail;      // may be the start of the closing mark
  };
  bool waits() const { return answer_ && place_.phase == Phase::Thoughts; }
  void advance_thought(int32_t token);

  std::shared_ptr<const ReasoningTokens> tokens_;
  ReasoningLimits limits_;
  std::unique_ptr<TokenConstraint> answer_;
  Place place_;
  std::vector<Place> before_;  // each token up to the first of the answer
  int64_t answered_ = 0;       // tokens since
  std::vector<int32_t> allowed_;
};

}  // namespace braid
