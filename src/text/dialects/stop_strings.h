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
  // The same for a mark of the model's dialect, which is no text of the answer: it is not searched for a part of it,
  // only for stops that hold it whole.
  std::string push_mark(std::string_view mark);
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
