// What penalties and biases need to know of one sequence's tokens.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "engine/request.h"
#include "ops/sampling.h"

namespace braid {

// Holds nothing where the sampling changes no logit.
class TokenHistory {
 public:
  TokenHistory() = default;
  TokenHistory(const Sampling& sampling, std::span<const int32_t> prompt);
  // A token of the answer.
  void add(int32_t token);
  // Appends one entry for each token whose logit may change; `banned` tokens get a bias of -infinity. No token occurs
  // twice.
  void append_entries(std::span<const int32_t> banned, std::vector<TokenEntry>& out) const;

 private:
  TokenEntry& entry(int32_t token);
  bool counts_ = false, sees_ = false;
  std::vector<TokenEntry> entries_;
  std::unordered_map<int32_t, size_t> places_;  // token -> index in entries_
};

}  // namespace braid
