// Printing values as Python does: str(), repr() and json.dumps().
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/json.h"
#include "text/template/value.h"

namespace braid::jinja {

std::string to_text(const Value& value);  // str(value)
std::string repr(const Value& value);
std::string repr_of_text(std::string_view text);
std::string ascii_of(const Value& value);  // ascii(value)

struct JsonStyle {
  bool ensure_ascii = false;
  std::optional<std::string> indent;  // what one level is indented by; none: all on one line
  std::string item_separator = ", ";
  std::string key_separator = ": ";
  bool sort_keys = false;
};

// json.dumps(value); a Fault where Python says "not JSON serializable".
std::string to_json_text(const Value& value, const JsonStyle& style);

// The value of a JSON document. Strings that are not UTF-8 get U+FFFD where they are not.
Value from_json(const Json& json);

}  // namespace braid::jinja
