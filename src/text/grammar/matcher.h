// Matcher: one sequence's place in a grammar: which tokens may come next, with a way back.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "text/grammar/frontier.h"
#include "text/grammar/grammar.h"

namespace braid {

// One thread at a time. Grammars with very many readings of one text make mask() and advance() throw an Input error;
// the matcher is then where it was.
class Matcher {
 public:
  explicit Matcher(std::shared_ptr<const Grammar> grammar);

  // Sets the bits of the tokens that advance() would take, and clears all others (set_bit in mask_cache.h).
  void mask(std::span<int32_t> words) const;
  // Goes on by a token. False, and nothing happens, if it may not come here. An end token may come where the text may
  // end, and nothing after it.
  bool advance(int32_t token);
  // Takes back the last tokens; as if they had not been.
  void rollback(int64_t tokens);
  // The text so far is whole.
  bool may_end() const { return !closed_ && marks_.back().ended; }
  // Nothing but an end token may come, or nothing at all.
  bool is_over() const;
  int64_t length() const { return static_cast<int64_t>(marks_.size()) - 1; }

 private:
  std::shared_ptr<const Grammar> grammar_;
  Frontier frontier_;
  std::vector<Frontier::Mark> marks_;  // after each token, and one before the first
  bool closed_ = false;                // the last token was an end token
};

}  // namespace braid
