// JSON as productions. Strings are one rule for all, so that their masks are found once.
// SPDX-License-Identifier: Apache-2.0
#include "text/grammar/schema/json_text.h"

#include <string>

namespace braid {
namespace {

constexpr uint32_t kMostSpaces = 32, kMostTabs = 8;

}  // namespace

JsonText::JsonText(Productions& productions, WhiteSpace space)
    : productions_(productions), spelling_(productions, SpelledAs::JsonString), space_(space) {}

ExpressionId JsonText::break_space() {
  Productions& p = productions_;
  if (space_ == WhiteSpace::Compact) return p.empty();
  if (!break_space_) {
    const ExpressionId indent =
        p.choice({p.repeat(p.bytes(" "), 0, kMostSpaces), p.repeat(p.bytes("\t"), 1, kMostTabs)});
    break_space_ = p.rule("space", p.choice({p.empty(), p.bytes(" "), p.sequence({p.bytes("\n"), indent})}));
  }
  return p.call(*break_space_);
}

ExpressionId JsonText::colon() {
  Productions& p = productions_;
  if (space_ == WhiteSpace::Compact) return p.bytes(":");
  return p.sequence({p.bytes(":"), p.optional(p.bytes(" "))});
}

ExpressionId JsonText::comma() { return productions_.sequence({productions_.bytes(","), break_space()}); }

ExpressionId JsonText::quoted(ExpressionId content) {
  return productions_.sequence({productions_.bytes("\""), content, productions_.bytes("\"")});
}

ExpressionId JsonText::character() {
  if (character_) return *character_;
  Productions& p = productions_;
  const auto digit = [&](std::string_view digits) {
    return p.characters(CodePointSet::of_each(std::u32string(digits.begin(), digits.end())));
  };
  const ExpressionId hex = digit("0123456789abcdefABCDEF");
  const auto d = digit("dD");
  const ExpressionId plain = p.characters(CodePointSet::all() - CodePointSet({{0, 0x1F}, {'"', '"'}, {'\\', '\\'}}));
  const ExpressionId unicode = p.choice({
      p.sequence({digit("0123456789abcefABCEF"), hex, hex, hex}),
      p.sequence({d, digit("01234567"), hex, hex}),
      p.sequence({d, digit("89abAB"), hex, hex, p.bytes("\\u"), d, digit("cdefCDEF"), hex, hex}),
  });
  const ExpressionId escape = p.choice({digit("\"\\/bfnrt"), p.sequence({p.bytes("u"), unicode})});
  character_ = p.choice({plain, p.sequence({p.bytes("\\"), escape})});
  return *character_;
}

ExpressionId JsonText::string(uint32_t least, uint32_t most) {
  if (least == 0 && most == kUnbounded) {
    if (!string_) string_ = productions_.rule("string", quoted(productions_.repeat(character(), 0)));
    return productions_.call(*string_);
  }
  return quoted(productions_.repeat(character(), least, most));
}

ExpressionId JsonText::number() {
  Productions& p = productions_;
  if (!number_) {
    const ExpressionId digit = p.byte('0', '9'), first = p.byte('1', '9'), minus = p.optional(p.bytes("-"));
    const ExpressionId fraction =
        p.optional(p.sequence({p.bytes("."), p.repeat(digit, 1, NumberRange::kMostFraction)}));
    const ExpressionId whole =
        p.choice({p.bytes("0"), p.sequence({first, p.repeat(digit, 0, NumberRange::kMostWhole - 1)})});
    // Up to 299: one digit before the point, so it stays within a double.
    const ExpressionId power = p.choice({p.repeat(digit, 1, 2), p.sequence({p.byte('1', '2'), digit, digit})});
    const ExpressionId exponent =
        p.sequence({digit, fraction, p.byte('E', 'E'), p.optional(p.choice({p.bytes("+"), p.bytes("-")})), power});
    const ExpressionId small =
        p.sequence({digit, fraction, p.byte('e', 'e'), p.optional(p.choice({p.bytes("+"), p.bytes("-")})), power});
    number_ = p.rule("number", p.sequence({minus, p.choice({p.sequence({whole, fraction}), exponent, small})}));
  }
  return p.call(*number_);
}

ExpressionId JsonText::integer() {
  if (!integer_) integer_ = productions_.rule("integer", numbers_in({.fraction = 0}, productions_));
  return productions_.call(*integer_);
}

ExpressionId JsonText::bracketed(char open, ExpressionId content, bool may_be_empty) {
  Productions& p = productions_;
  const ExpressionId full = p.sequence({content, break_space()});
  return p.sequence(
      {p.bytes({&open, 1}), break_space(), may_be_empty ? p.optional(full) : full, p.bytes(open == '{' ? "}" : "]")});
}

ExpressionId JsonText::list(ExpressionId item, uint32_t least, uint32_t most) {
  Productions& p = productions_;
  if (most == 0) return bracketed('[', p.nothing(), true);
  const uint32_t more = most == kUnbounded ? most : most - 1;
  const ExpressionId items = p.sequence({item, p.repeat(p.sequence({comma(), item}), least > 0 ? least - 1 : 0, more)});
  return bracketed('[', items, least == 0);
}

ExpressionId JsonText::any_array() {
  if (!array_) {
    array_ = productions_.declare("array");
    productions_.define(*array_, list(any(), 0, kUnbounded));
  }
  return productions_.call(*array_);
}

ExpressionId JsonText::any_object() {
  Productions& p = productions_;
  if (!object_) {
    object_ = p.declare("object");
    const ExpressionId member = p.sequence({string(), colon(), any()});
    p.define(*object_, bracketed('{', p.sequence({member, p.repeat(p.sequence({comma(), member}), 0)}), true));
  }
  return p.call(*object_);
}

ExpressionId JsonText::any() {
  Productions& p = productions_;
  if (!any_) {
    any_ = p.declare("value");
    p.define(*any_, p.choice({string(), number(), any_object(), any_array(), p.bytes("true"), p.bytes("false"),
                              p.bytes("null")}));
  }
  return p.call(*any_);
}

ExpressionId JsonText::constant(const Json& value) {
  Productions& p = productions_;
  if (!value.is_structured()) return p.bytes(value.dump());
  std::vector<ExpressionId> parts;
  for (const auto& [key, item] : value.items()) {
    if (!parts.empty()) parts.push_back(comma());
    if (value.is_object()) {
      parts.push_back(p.bytes(Json(key).dump()));
      parts.push_back(colon());
    }
    parts.push_back(constant(item));
  }
  const bool empty = parts.empty();
  return bracketed(value.is_object() ? '{' : '[', empty ? p.nothing() : p.sequence(std::move(parts)), empty);
}

}  // namespace braid
