// SPDX-License-Identifier: Apache-2.0
#include "text/dialects/stop_strings.h"

#include <algorithm>
#include <utility>

#include "text/dialects/partial_match.h"

namespace braid {

std::string StopStrings::push(std::string_view text) {
  if (stopped_) return {};
  held_ += text;
  size_t first = std::string::npos, keep = 0;
  for (const std::string& stop : stops_) {
    if (stop.empty()) continue;
    if (const size_t at = held_.find(stop); at < first) {
      first = at;
      found_ = stop;
    }
    keep = std::max(keep, partial_match(held_, stop));
  }
  stopped_ = first != std::string::npos;
  const size_t shown = stopped_ ? first : held_.size() - keep;
  std::string out = held_.substr(0, shown);
  held_.erase(0, stopped_ ? held_.size() : shown);
  return out;
}

std::string StopStrings::push_mark(std::string_view mark) {
  const auto holds = [&](const std::string& stop) { return stop.find(mark) != std::string::npos; };
  if (stopped_ || std::ranges::any_of(stops_, holds)) return push(mark);
  return finish().append(mark);
}

std::string StopStrings::finish() { return std::exchange(held_, {}); }

}  // namespace braid
