// A matcher behind the engine's interface.
// SPDX-License-Identifier: Apache-2.0
#include "text/grammar/grammar_constraint.h"

#include <vector>

#include "base/error.h"
#include "text/grammar/matcher.h"

namespace braid {
namespace {

class GrammarConstraint final : public TokenConstraint {
 public:
  explicit GrammarConstraint(std::shared_ptr<const Grammar> grammar)
      : words_(static_cast<size_t>(grammar->trie().highest_id() / 32 + 1)), matcher_(std::move(grammar)) {}

  bool narrow(std::span<int32_t> words) override {
    matcher_.mask(words_);
    for (size_t i = 0; i < words.size(); ++i) words[i] &= i < words_.size() ? words_[i] : 0;
    return true;
  }
  bool may_end() const override { return matcher_.may_end(); }
  bool finished() const override { return matcher_.is_over(); }
  void advance(int32_t token) override {
    if (!matcher_.advance(token)) fail("token {} is not in the grammar", token);
  }
  void rollback(int64_t tokens) override { matcher_.rollback(tokens); }

 private:
  std::vector<int32_t> words_;
  Matcher matcher_;
};

}  // namespace

std::unique_ptr<TokenConstraint> make_constraint(std::shared_ptr<const Grammar> grammar) {
  return std::make_unique<GrammarConstraint>(std::move(grammar));
}

}  // namespace braid
