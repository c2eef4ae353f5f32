// Ends an answer before the first of several texts, holding back only what may be the start of one.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace braid {

// Not thread-safe.
class StopStrings {
 public:
  explicit StopStrings(std::vector<std::string> stops) : stops_(std::move(stops)) {}
  // What may be shown now. Nothing more comes after a stop was found.
  std::string push(std::string_view text);
  // What was held back, when the answer ended otherwise.
  std::string finish();
  bool stopped() const { return stopped_; }
  // The stop that was found; empty before that.
  const std::string& found() const { return found_; }

 private:
  std::vector<std::string> stops_;
  std::string held_, found_;
  bool stopped_ = false;
};

}  // namespace braid
