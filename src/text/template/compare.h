// Comparing and hashing of template values, after Python's ==, <, in and hash().
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>
#include <vector>

#include "text/template/value.h"

namespace braid::jinja {

bool equals(const Value& left, const Value& right);
// `operation` ("<", ">=" ...) is for the error where the types have no order.
bool less(const Value& left, const Value& right, std::string_view operation);
bool less_or_equal(const Value& left, const Value& right, std::string_view operation);
// `item in container`; consumes a generator.
bool contains(const Value& container, const Value& item);
// `left is right`: identity, which for plain numbers and words means same type and value.
bool same(const Value& left, const Value& right);
// A Fault where Python says "unhashable type".
size_t hash_of(const Value& value);
// The order in which sorted(keys, reverse=descending) puts them; stable.
std::vector<size_t> sorted_order(const std::vector<Value>& keys, bool descending);
size_t hash_of_text(std::string_view text);

}  // namespace braid::jinja
