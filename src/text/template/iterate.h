// Walking over template values, after Python's iter() and list().
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "text/template/value.h"

namespace braid::jinja {

bool iterable(const Value& value);
// A Fault where Python says "object is not iterable".
Iterator iterate(const Value& value);
Iterator iterate_backwards(const Value& value);
// list(value)
std::vector<Value> to_items(const Value& value);
// The entry of a view (its key, its value, or both as a tuple).
Value view_item(const View& view, const Dict::Entry& entry);
// The number at `index` of a range, which must hold it.
Value range_item(const Range& range, int64_t index);

}  // namespace braid::jinja
