// SPDX-License-Identifier: Apache-2.0
#include "ops/wrappers/counting.h"

#include <utility>

namespace braid {
namespace {

struct Counted final : Recording {
  std::unique_ptr<Recording> inner;
  std::map<std::string_view, CountingExecutor::Entry> totals;
};

void add(std::map<std::string_view, CountingExecutor::Entry>& to,
         const std::map<std::string_view, CountingExecutor::Entry>& from) {
  for (const auto& [name, entry] : from) {
    to[name].ops += entry.ops;
    to[name].cost += entry.cost;
  }
}

}  // namespace

std::unique_ptr<Recording> CountingExecutor::record(const std::function<void()>& submit_all) {
  const auto before = std::exchange(totals_, {});
  auto counted = std::make_unique<Counted>();
  counted->inner = inner_.record([&] {
    totals_.clear();
    submit_all();
  });
  counted->totals = std::exchange(totals_, before);
  add(totals_, counted->totals);
  if (counted->inner == nullptr) return nullptr;
  return counted;
}

bool CountingExecutor::replay(Recording& recording) {
  auto& counted = static_cast<Counted&>(recording);
  if (!inner_.replay(*counted.inner)) return false;
  add(totals_, counted.totals);
  return true;
}

}  // namespace braid
