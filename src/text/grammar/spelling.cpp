// Sets of characters and patterns of them as expressions over bytes.
// SPDX-License-Identifier: Apache-2.0
#include "text/grammar/spelling.h"

#include "base/json.h"

namespace braid {

std::string json_escaped(std::string_view text) {
  const std::string quoted = Json(std::string(text)).dump();
  return quoted.substr(1, quoted.size() - 2);
}

ExpressionId Spelling::characters(const CodePointSet& set) {
  const auto [known, is_new] = known_.try_emplace(set.ranges(), 0);
  if (!is_new) return known->second;
  if (as_ == SpelledAs::Text) return known->second = productions_->characters(set);
  static const CodePointSet kEscaped({{0, 0x1F}, {'"', '"'}, {'\\', '\\'}});
  std::vector<ExpressionId> ways;
  if (const CodePointSet plain = set - kEscaped; !plain.empty()) ways.push_back(productions_->characters(plain));
  const CodePointSet escaped = set & kEscaped;
  for (const CodePointRange& range : escaped.ranges()) {
    for (uint32_t code = range.first; code <= range.last; ++code) {
      ways.push_back(productions_->bytes(json_escaped(std::string(1, static_cast<char>(code)))));
    }
  }
  return known->second = productions_->choice(std::move(ways));
}

ExpressionId Spelling::pattern(const Regex& pattern) {
  std::vector<ExpressionId> parts;
  for (const Regex& part : pattern.parts) parts.push_back(this->pattern(part));
  switch (pattern.kind) {
    case Regex::Kind::Characters:
      return characters(pattern.characters);
    case Regex::Kind::Choice:
      return productions_->choice(std::move(parts));
    case Regex::Kind::Repeat:
      return productions_->repeat(parts.front(), pattern.least, pattern.most);
    default:
      return productions_->sequence(std::move(parts));
  }
}

}  // namespace braid
