// Reads the fields of a JSON object: wrong types are refused by name, and what nobody read is logged.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"

namespace braid::server {

// "a string", "a number", "null"
std::string_view type_name(const Json& value);

// A field that is null counts as absent. Faults are ApiErrors (Invalid) that name the field with its place. The object
// has to outlive this.
class Fields {
 public:
  // `place`: what stands before the names in messages, "messages[0]"; empty for the body itself.
  explicit Fields(const Json& object, std::string place = "");

  const Json* any(std::string_view name);
  std::optional<std::string> text(std::string_view name);
  std::optional<bool> flag(std::string_view name);
  std::optional<double> number(std::string_view name, double low = -std::numeric_limits<double>::infinity(),
                               double high = std::numeric_limits<double>::infinity());
  std::optional<int64_t> integer(std::string_view name, int64_t low = std::numeric_limits<int64_t>::min(),
                                 int64_t high = std::numeric_limits<int64_t>::max());
  const Json* list(std::string_view name);
  const Json& required_list(std::string_view name);
  const Json* object(std::string_view name);
  // A list of strings, or one string.
  std::vector<std::string> texts(std::string_view name);
  // A list of ids below `vocabulary`.
  std::vector<int32_t> tokens(std::string_view name, int64_t vocabulary);
  std::vector<int32_t> tokens_of(const Json& list, std::string_view name, int64_t vocabulary) const;

  std::string place_of(std::string_view name) const;
  [[noreturn]] void refuse(std::string_view name, std::string_view why) const;
  // Notes each field that was not asked for, at debug level.
  void log_unknown() const;

 private:
  const Json& object_;
  std::string place_;
  std::set<std::string, std::less<>> read_;
};

}  // namespace braid::server
