// SPDX-License-Identifier: Apache-2.0
#include "text/template/item_path.h"

#include "text/template/numbers.h"
#include "text/template/operators.h"
#include "text/template/python_text.h"

namespace braid::jinja {

ItemPath::ItemPath(const Value& attribute) {
  if (attribute.is_none()) return;
  const Text* text = attribute.as_text();
  if (!text) {
    steps_.push_back(attribute);
    return;
  }
  for (std::string& part : split(text->bytes(), ".", -1)) {
    if (all_in_class(part, CharacterClass::Digit)) {
      steps_.push_back(Value::integer(parse_integer(part, 10).value_or(0)));
    } else {
      steps_.push_back(Value::text(std::move(part)));
    }
  }
}

Value ItemPath::of(const Value& value) const {
  Value at = value;
  for (const Value& step : steps_) {
    at = item_of(at, step);
    if (missing_ && at.is_undefined()) at = *missing_;
  }
  return ignore_case_ ? without_case(at) : at;
}

Value without_case(const Value& value) {
  const Text* text = value.as_text();
  return text ? Value::text(change_case(text->bytes(), Case::Lower)) : value;
}

}  // namespace braid::jinja
