// Operators, subscripts and attributes of template values, after Python and Jinja.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string_view>

#include "text/template/numbers.h"
#include "text/template/value.h"

namespace braid::jinja {

Value apply_arithmetic(Arithmetic operation, const Value& left, const Value& right);
Value negate(const Value& value);
Value affirm(const Value& value);

struct SliceBounds {
  Value start, stop, step;  // None where left out
};
Value slice_of(const Value& value, const SliceBounds& bounds);

// value.name: an attribute or method, else the item of that name, else undefined.
Value attribute_of(const Value& value, const Text& name);
// value[key]: an item, else the attribute of that name, else undefined.
Value item_of(const Value& value, const Value& key);
// Attributes and methods alone, without items.
std::optional<Value> own_attribute(const Value& value, std::string_view name);

}  // namespace braid::jinja
