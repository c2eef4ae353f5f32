// Splits an answer, as it streams, into what the model thinks between two marks and what it says.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

#include "text/dialects/dialect.h"

namespace braid {

// Whether a rendered prompt leaves the model inside its thoughts.
bool ends_in_reasoning(std::string_view prompt, const ReasoningMarks& marks);

// Not thread-safe. Marks never appear in what it returns, however the text is cut into pieces. White space around
// thoughts and before the answer is dropped, so thoughts without content are empty.
class ReasoningSplitter {
 public:
  struct Piece {
    std::string reasoning, answer;
  };
  ReasoningSplitter(ReasoningMarks marks, bool inside);
  Piece push(std::string_view text);
  // The rest, when the answer has ended: what looked like the start of a mark and was none.
  Piece finish();
  bool inside() const { return inside_; }

 private:
  void emit(std::string_view text, Piece& out);
  ReasoningMarks marks_;
  bool inside_;
  bool answered_ = false;  // the answer has begun
  std::string held_;       // may be the start of a mark
  std::string space_;      // white space that counts only if thoughts go on after it
  bool thought_ = false;   // thoughts have begun
};

}  // namespace braid
