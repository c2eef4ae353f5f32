// The attribute="a.b.0" arguments of filters.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <vector>

#include "text/template/value.h"

namespace braid::jinja {

// Names and numbers to look up one after the other; an empty path gives the value itself.
class ItemPath {
 public:
  // None: the empty path. A string is cut at its dots; parts that are digits are numbers.
  explicit ItemPath(const Value& attribute);
  // What an undefined step is replaced by.
  void replace_undefined_by(Value value) { missing_ = std::move(value); }
  void ignore_case() { ignore_case_ = true; }
  Value of(const Value& value) const;

 private:
  std::vector<Value> steps_;
  std::optional<Value> missing_;
  bool ignore_case_ = false;
};

// A string in lower case, and any other value as it is.
Value without_case(const Value& value);

}  // namespace braid::jinja
