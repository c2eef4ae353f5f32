// SPDX-License-Identifier: Apache-2.0
#include "engine/token_history.h"

#include <algorithm>
#include <limits>

namespace braid {

TokenHistory::TokenHistory(const Sampling& sampling, std::span<const int32_t> prompt)
    : counts_(sampling.penalties.frequency != 0.0f || sampling.penalties.presence != 0.0f),
      sees_(sampling.penalties.repetition != 1.0f) {
  for (const auto& [token, bias] : sampling.logit_bias) entry(token).bias += bias;
  if (sees_)
    for (const int32_t token : prompt) entry(token).seen = 1;
}

TokenEntry& TokenHistory::entry(int32_t token) {
  const auto [place, fresh] = places_.try_emplace(token, entries_.size());
  if (fresh) entries_.push_back({.token = token});
  return entries_[place->second];
}

void TokenHistory::add(int32_t token) {
  if (!counts_ && !sees_) return;
  TokenEntry& changed = entry(token);
  ++changed.count;
  changed.seen = 1;
}

void TokenHistory::append_entries(std::span<const int32_t> banned, std::vector<TokenEntry>& out) const {
  constexpr float kNever = -std::numeric_limits<float>::infinity();
  const auto first = static_cast<std::ptrdiff_t>(out.size());
  out.insert(out.end(), entries_.begin(), entries_.end());
  for (const int32_t token : banned) {
    if (const auto place = places_.find(token); place != places_.end())
      out[static_cast<size_t>(first) + place->second].bias = kNever;
    else if (std::none_of(out.begin() + first, out.end(), [&](const TokenEntry& e) { return e.token == token; }))
      out.push_back({.token = token, .bias = kNever});
  }
}

}  // namespace braid
