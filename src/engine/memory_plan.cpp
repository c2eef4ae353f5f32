// SPDX-License-Identifier: Apache-2.0
#include "engine/memory_plan.h"

#include <algorithm>
#include <limits>

#include "base/error.h"
#include "engine/mark_plan.h"

namespace braid {
namespace {

struct Sizes {
  int64_t page = 0, slot = 0;
};

Sizes sizes(std::span<const StateNeed> needs) {
  Sizes sum;
  for (const StateNeed& need : needs) {
    sum.page += need.bytes_per_token * StatePool::kPageTokens;
    sum.slot += need.bytes_per_sequence;
  }
  return sum;
}

}  // namespace

int64_t default_cache_bytes(std::span<const StateNeed> needs, int64_t context, int64_t free) {
  constexpr int64_t kConversations = 4, kTokens = 32768;
  constexpr int64_t kEnds = 4;  // marks of a turn beside those of the intervals: its borders, and where it ends
  const auto [page, slot] = sizes(needs);
  const int64_t tokens = std::min(context, kTokens), marks = tokens / mark_interval(needs) + kEnds;
  return std::min(free / 4, kConversations * (marks * slot + StatePool::pages_for(tokens) * page));
}

int32_t kept_slots(std::span<const StateNeed> needs, int64_t bytes) {
  constexpr int64_t kLeast = 4, kMost = 64;
  const int64_t slot = sizes(needs).slot;
  return static_cast<int32_t>(slot == 0 ? 0 : std::clamp(bytes / 8 / slot, kLeast, kMost));
}

int64_t state_bytes(std::span<const StateNeed> needs, const StatePool::Limits& limits) {
  const auto [page, slot] = sizes(needs);
  return limits.pages * page + (int64_t{limits.slots} + 1) * slot;
}

StatePool::Limits plan_state(std::span<const StateNeed> needs, const MemoryRequest& request) {
  CHECK(request.context > 0 && request.sequences > 0, "context={} sequences={}", request.context, request.sequences);
  const auto [page, slot] = sizes(needs);
  const int64_t one = StatePool::pages_for(request.context), slots = int64_t{request.sequences} + request.kept + 1;
  int64_t all = 0;
  if (__builtin_mul_overflow(one, int64_t{request.sequences}, &all) || all > std::numeric_limits<int32_t>::max())
    fail(ErrorKind::Resource, "{} sequences of {} tokens are more than the {} pages that can be counted",
         request.sequences, request.context, std::numeric_limits<int32_t>::max());
  StatePool::Limits limits{.pages = all, .slots = request.sequences + request.kept};
  if (!request.bytes || page == 0) return limits;
  limits.pages = std::min(all, std::max<int64_t>(*request.bytes - slots * slot, 0) / page);
  if (limits.pages < one)
    fail(ErrorKind::Resource,
         "a context of {} tokens needs {} bytes of state ({} pages of {} bytes and {} slots of {} bytes), {} are given",
         request.context, one * page + slots * slot, one, page, slots, slot, *request.bytes);
  return limits;
}

}  // namespace braid
