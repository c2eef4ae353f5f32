// What types the tools of a request give to the parameters of each function, for calls whose values are plain text.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "base/json.h"

namespace braid {

// The types that a schema allows, as a set of bits; none is known where no bit is set.
struct ValueTypes {
  enum Bit : unsigned { String = 1, Number = 2, Boolean = 4, Object = 8, Array = 16, Null = 32 };
  unsigned bits = 0;
  bool only_string() const { return bits == String; }
};

// Looks through type, enum, const, properties, items, anyOf, oneOf, allOf and $ref into `root`.
ValueTypes types_of_schema(const Json& schema, const Json& root);

// The JSON text of a parameter's value: `text` itself where it is JSON of a type that is allowed (or of any type where
// none is known; Python's True, False and None count as such), else `text` as a string.
std::string typed_value(std::string_view text, ValueTypes types);

// Immutable once made.
class ParameterTypes {
 public:
  ParameterTypes() = default;
  // `tools` is a list of {"type": "function", "function": {"name", "parameters"}}, or of the inner objects. Entries of
  // another shape are passed over.
  explicit ParameterTypes(const Json& tools);
  ValueTypes of(const std::string& function, const std::string& parameter) const;

 private:
  std::map<std::string, std::map<std::string, ValueTypes>> functions_;
};

}  // namespace braid
