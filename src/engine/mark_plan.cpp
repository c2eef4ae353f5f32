// SPDX-License-Identifier: Apache-2.0
#include "engine/mark_plan.h"

#include <algorithm>

namespace braid {
namespace {

constexpr int64_t kBorder = 64;

int64_t border_below(int64_t length) { return length / kBorder * kBorder; }

}  // namespace

std::vector<int64_t> mark_lengths(const MarkPlan& plan) {
  std::vector<int64_t> lengths;
  const auto add = [&](int64_t length) {
    if (plan.strict) length = border_below(length);
    if (length > plan.cached && length < plan.prompt) lengths.push_back(length);
  };
  for (const int64_t border : plan.borders) add(border);
  // All but the last token, whose logits are wanted.
  const int64_t whole = plan.prompt - 1;
  add(plan.common >= whole ? whole : border_below(plan.common));
  const int64_t last = lengths.empty() ? plan.cached : std::max(plan.cached, *std::ranges::max_element(lengths));
  if (whole - last >= kBorder) add(whole);
  for (int64_t at = plan.interval; plan.interval > 0 && at < plan.prompt; at += plan.interval) add(at);
  std::ranges::sort(lengths);
  lengths.erase(std::unique(lengths.begin(), lengths.end()), lengths.end());
  return lengths;
}

int64_t mark_interval(std::span<const StateNeed> needs) {
  constexpr int64_t kLeast = 256, kMost = 4096;
  int64_t per_token = 0, per_sequence = 0;
  for (const StateNeed& need : needs) per_token += need.bytes_per_token, per_sequence += need.bytes_per_sequence;
  if (per_sequence == 0 || per_token == 0) return per_sequence == 0 ? kLeast : kMost;
  return std::clamp((per_sequence / per_token + kLeast - 1) / kLeast * kLeast, kLeast, kMost);
}

}  // namespace braid
