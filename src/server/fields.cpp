// SPDX-License-Identifier: Apache-2.0
#include "server/fields.h"

#include <fmt/format.h>

#include "base/log.h"
#include "server/api_error.h"

namespace braid::server {

std::string_view type_name(const Json& value) {
  if (value.is_string()) return "a string";
  if (value.is_boolean()) return "a boolean";
  if (value.is_number()) return "a number";
  if (value.is_array()) return "a list";
  return value.is_object() ? "an object" : "null";
}

Fields::Fields(const Json& object, std::string place) : object_(object), place_(std::move(place)) {
  if (!object.is_object())
    throw ApiError(
        Fault::Invalid,
        fmt::format("{}expected an object, found {}", place_.empty() ? "" : place_ + ": ", type_name(object)), place_,
        "invalid_type");
}

std::string Fields::place_of(std::string_view name) const {
  return place_.empty() ? std::string(name) : fmt::format("{}.{}", place_, name);
}

void Fields::refuse(std::string_view name, std::string_view why) const {
  throw ApiError(Fault::Invalid, fmt::format("{}: {}", place_of(name), why), place_of(name), "invalid_value");
}

const Json* Fields::any(std::string_view name) {
  read_.emplace(name);
  const auto found = object_.find(name);
  return found == object_.end() || found->is_null() ? nullptr : &*found;
}

std::optional<std::string> Fields::text(std::string_view name) {
  const Json* value = any(name);
  if (value == nullptr) return std::nullopt;
  if (!value->is_string()) refuse(name, fmt::format("expected a string, found {}", type_name(*value)));
  return value->get<std::string>();
}

std::optional<bool> Fields::flag(std::string_view name) {
  const Json* value = any(name);
  if (value == nullptr) return std::nullopt;
  if (!value->is_boolean()) refuse(name, fmt::format("expected true or false, found {}", type_name(*value)));
  return value->get<bool>();
}

std::optional<double> Fields::number(std::string_view name, double low, double high) {
  const Json* value = any(name);
  if (value == nullptr) return std::nullopt;
  if (!value->is_number()) refuse(name, fmt::format("expected a number, found {}", type_name(*value)));
  const double number = value->get<double>();
  if (!(number >= low && number <= high)) refuse(name, fmt::format("expected {} to {}, found {}", low, high, number));
  return number;
}

std::optional<int64_t> Fields::integer(std::string_view name, int64_t low, int64_t high) {
  const Json* value = any(name);
  if (value == nullptr) return std::nullopt;
  const double number = value->is_number() ? value->get<double>() : 0;
  constexpr double kLargest = 9.2e18;
  if (!value->is_number() ||
      number != static_cast<double>(static_cast<int64_t>(std::clamp(number, -kLargest, kLargest))))
    refuse(name,
           fmt::format("expected a whole number, found {}", value->is_number() ? "a fraction" : type_name(*value)));
  const int64_t whole =
      value->is_number_integer() && !value->is_number_unsigned() ? value->get<int64_t>() : static_cast<int64_t>(number);
  if (whole < low || whole > high)
    refuse(name, high == std::numeric_limits<int64_t>::max()
                     ? fmt::format("expected at least {}, found {}", low, whole)
                     : fmt::format("expected {} to {}, found {}", low, high, whole));
  return whole;
}

const Json* Fields::list(std::string_view name) {
  const Json* value = any(name);
  if (value != nullptr && !value->is_array()) refuse(name, fmt::format("expected a list, found {}", type_name(*value)));
  return value;
}

const Json& Fields::required_list(std::string_view name) {
  const Json* value = list(name);
  if (value == nullptr) refuse(name, "is missing");
  return *value;
}

const Json* Fields::object(std::string_view name) {
  const Json* value = any(name);
  if (value != nullptr && !value->is_object())
    refuse(name, fmt::format("expected an object, found {}", type_name(*value)));
  return value;
}

std::vector<std::string> Fields::texts(std::string_view name) {
  const Json* value = any(name);
  if (value == nullptr) return {};
  if (value->is_string()) return {value->get<std::string>()};
  std::vector<std::string> out;
  if (!value->is_array()) refuse(name, fmt::format("expected a string or a list, found {}", type_name(*value)));
  for (const Json& item : *value) {
    if (!item.is_string()) refuse(name, fmt::format("expected strings, found {}", type_name(item)));
    out.push_back(item.get<std::string>());
  }
  return out;
}

std::vector<int32_t> Fields::tokens(std::string_view name, int64_t vocabulary) {
  const Json* value = list(name);
  return value != nullptr ? tokens_of(*value, name, vocabulary) : std::vector<int32_t>{};
}

std::vector<int32_t> Fields::tokens_of(const Json& list, std::string_view name, int64_t vocabulary) const {
  std::vector<int32_t> out;
  for (const Json& item : list) {
    if (!item.is_number_integer()) refuse(name, fmt::format("expected token ids, found {}", type_name(item)));
    const auto token = item.get<double>();
    if (token < 0 || token >= static_cast<double>(vocabulary))
      refuse(name, fmt::format("token {} is outside of the vocabulary of {}", item.dump(), vocabulary));
    out.push_back(item.get<int32_t>());
  }
  return out;
}

void Fields::log_unknown() const {
  for (const auto& [name, value] : object_.items())
    if (!read_.contains(name)) log::debug("unknown field ignored name={}", place_of(name));
}

}  // namespace braid::server
