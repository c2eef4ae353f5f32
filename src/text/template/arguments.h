// Matching the arguments of a call with a builtin's parameters.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "text/template/value.h"

namespace braid::jinja {

// Parameters in their order; the first `required` ones must be given, the first `unnamed` ones cannot be named.
struct Signature {
  std::string_view function;
  std::vector<std::string_view> parameters;
  size_t required = 0;
  size_t unnamed = 0;
};

// What a call gave for each parameter; reading one that was not given gives the default.
class Bound {
 public:
  Bound(const Arguments& arguments, const Signature& signature);
  bool given(size_t at) const { return values_[at].has_value(); }
  // None where not given.
  Value value(size_t at) const { return values_[at].value_or(Value()); }
  bool flag(size_t at, bool missing) const;
  // A Fault where it is no int.
  int64_t integer(size_t at, int64_t missing) const;
  // Nothing where not given or None; a Fault where it is no string.
  std::optional<std::string> text(size_t at) const;

 private:
  std::string_view function_;
  std::vector<std::string_view> names_;
  std::vector<std::optional<Value>> values_;
};

}  // namespace braid::jinja
