// SPDX-License-Identifier: Apache-2.0
#include "text/dialects/reasoning.h"

#include "text/dialects/partial_match.h"

namespace braid {
namespace {

constexpr std::string_view kSpace = " \t\r\n";

}  // namespace

bool ends_in_reasoning(std::string_view prompt, const ReasoningMarks& marks) {
  const size_t open = prompt.rfind(marks.open), close = prompt.rfind(marks.close);
  return open != std::string_view::npos && (close == std::string_view::npos || close < open);
}

ReasoningSplitter::ReasoningSplitter(ReasoningMarks marks, bool inside) : marks_(std::move(marks)), inside_(inside) {}

void ReasoningSplitter::emit(std::string_view text, Piece& out) {
  if (!inside_) {
    if (!answered_) text.remove_prefix(std::min(text.find_first_not_of(kSpace), text.size()));
    answered_ = answered_ || !text.empty();
    out.answer += text;
    return;
  }
  for (const char c : text) {
    if (kSpace.find(c) != std::string_view::npos) {
      if (thought_) space_ += c;
    } else {
      out.reasoning += space_;
      out.reasoning += c;
      space_.clear();
      thought_ = true;
    }
  }
}

ReasoningSplitter::Piece ReasoningSplitter::push(std::string_view text) {
  Piece out;
  held_ += text;
  while (true) {
    const std::string& mark = inside_ ? marks_.close : marks_.open;
    const size_t found = held_.find(mark);
    if (found == std::string::npos) {
      const size_t keep = partial_match(held_, mark);
      emit(std::string_view(held_).substr(0, held_.size() - keep), out);
      held_.erase(0, held_.size() - keep);
      return out;
    }
    emit(std::string_view(held_).substr(0, found), out);
    held_.erase(0, found + mark.size());
    inside_ = !inside_;
    thought_ = false;
    space_.clear();
  }
}

ReasoningSplitter::Piece ReasoningSplitter::finish() {
  Piece out;
  emit(held_, out);
  held_.clear();
  return out;
}

}  // namespace braid
