// SPDX-License-Identifier: Apache-2.0
#include "engine/memory_plan.h"

#include <algorithm>
#include <limits>

#include "base/error.h"
#include "base/memory_info.h"

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

int64_t default_cache_bytes(std::span<const StateNeed> needs) {
  constexpr int64_t kConversations = 8, kTokens = 1024;
  const auto [page, slot] = sizes(needs);
  return std::min(memory_info().available / 4, kConversations * (slot + StatePool::pages_for(kTokens) * page));
}

int64_t state_bytes(std::span<const StateNeed> needs, const StatePool::Limits& limits) {
  const auto [page, slot] = sizes(needs);
  return limits.pages * page + (int64_t{limits.slots} + 1) * slot;
}

StatePool::Limits plan_state(std::span<const StateNeed> needs, const MemoryRequest& request) {
  CHECK(request.context > 0 && request.sequences > 0, "context={} sequences={}", request.context, request.sequences);
  const auto [page, slot] = sizes(needs);
  const int64_t one = StatePool::pages_for(request.context), slots = int64_t{request.sequences} + 1;
  int64_t all = 0;
  if (__builtin_mul_overflow(one, int64_t{request.sequences}, &all) || all > std::numeric_limits<int32_t>::max())
    fail(ErrorKind::Resource, "{} sequences of {} tokens are more than the {} pages that can be counted",
         request.sequences, request.context, std::numeric_limits<int32_t>::max());
  StatePool::Limits limits{.pages = all, .slots = request.sequences};
  if (!request.bytes || page == 0) return limits;
  limits.pages = std::min(all, std::max<int64_t>(*request.bytes - slots * slot, 0) / page);
  if (limits.pages < one)
    fail(ErrorKind::Resource,
         "a context of {} tokens needs {} bytes of state ({} pages of {} bytes and {} slots of {} bytes), {} are given",
         request.context, one * page + slots * slot, one, page, slots, slot, *request.bytes);
  return limits;
}

}  // namespace braid
