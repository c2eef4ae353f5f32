// SPDX-License-Identifier: Apache-2.0
#include "model/config.h"

#include <fmt/ranges.h>

#include "base/error.h"
#include "base/log.h"

namespace braid {
namespace {

// Nothing where the value is no integer, or one that no key can mean.
std::optional<int64_t> integer_of(const Json& value) {
  if (!value.is_number_integer()) return std::nullopt;
  if (value.is_number_unsigned() && value.get<uint64_t>() > static_cast<uint64_t>(INT64_MAX)) return std::nullopt;
  return value.get<int64_t>();
}

}  // namespace

ConfigReader::ConfigReader(const Json& config, std::string place) : config_(config), place_(std::move(place)) {
  if (!config.is_object()) fail("{}: not a JSON object", place_);
}

const Json* ConfigReader::find(std::string_view key) {
  read_.emplace(key);
  const auto found = config_.find(std::string(key));
  return found == config_.end() || found->is_null() ? nullptr : &*found;
}

bool ConfigReader::has(std::string_view key) const {
  const auto found = config_.find(std::string(key));
  return found != config_.end() && !found->is_null();
}

void ConfigReader::refuse(std::string_view key, const std::string& why) const { fail("{}: '{}' {}", place_, key, why); }

int64_t ConfigReader::integer(std::string_view key) {
  const Json* value = find(key);
  if (value == nullptr) refuse(key, "is missing");
  const std::optional<int64_t> found = integer_of(*value);
  if (!found) refuse(key, fmt::format("must be an integer of 64 bits, found {}", value->dump()));
  return *found;
}

int64_t ConfigReader::integer(std::string_view key, int64_t otherwise) { return find(key) ? integer(key) : otherwise; }

int64_t ConfigReader::size(std::string_view key, int64_t largest) {
  const int64_t value = integer(key);
  if (value < 1 || value > largest) refuse(key, fmt::format("must lie between 1 and {}, found {}", largest, value));
  return value;
}

int64_t ConfigReader::count(std::string_view key, int64_t otherwise, int64_t largest) {
  const int64_t value = integer(key, otherwise);
  if (value < 0 || value > largest) refuse(key, fmt::format("must lie between 0 and {}, found {}", largest, value));
  return value;
}

int64_t ConfigReader::size_of(std::initializer_list<std::string_view> keys, std::optional<int64_t> otherwise) {
  for (const std::string_view key : keys)
    if (find(key)) return size(key);
  return otherwise ? *otherwise : size(*keys.begin());
}

double ConfigReader::number(std::string_view key, double otherwise) {
  const Json* value = find(key);
  if (value == nullptr) return otherwise;
  if (!value->is_number()) refuse(key, fmt::format("must be a number, found {}", value->dump()));
  return value->get<double>();
}

bool ConfigReader::flag(std::string_view key, bool otherwise) {
  const Json* value = find(key);
  if (value == nullptr) return otherwise;
  if (!value->is_boolean()) refuse(key, fmt::format("must be true or false, found {}", value->dump()));
  return value->get<bool>();
}

std::string ConfigReader::text(std::string_view key, const std::string& otherwise) {
  const Json* value = find(key);
  if (value == nullptr) return otherwise;
  if (!value->is_string()) refuse(key, fmt::format("must be a string, found {}", value->dump()));
  return value->get<std::string>();
}

std::vector<int64_t> ConfigReader::counts(std::string_view key, int64_t largest) {
  const Json* value = find(key);
  if (value == nullptr) return {};
  std::vector<int64_t> out;
  if (!value->is_array()) refuse(key, "must be a list of integers");
  for (const Json& item : *value) {
    const std::optional<int64_t> found = integer_of(item);
    if (!found || *found < 0 || *found > largest)
      refuse(key, fmt::format("must be a list of integers between 0 and {}, found {}", largest, item.dump()));
    out.push_back(*found);
  }
  return out;
}

std::vector<std::string> ConfigReader::texts(std::string_view key) {
  const Json* value = find(key);
  if (value == nullptr) return {};
  std::vector<std::string> out;
  if (!value->is_array()) refuse(key, "must be a list of strings");
  for (const Json& item : *value) {
    if (!item.is_string()) refuse(key, fmt::format("must be a list of strings, found {}", item.dump()));
    out.push_back(item.get<std::string>());
  }
  return out;
}

const Json* ConfigReader::object(std::string_view key) {
  const Json* value = find(key);
  if (value != nullptr && !value->is_object()) refuse(key, fmt::format("must be an object, found {}", value->dump()));
  return value;
}

void ConfigReader::expect(std::string_view key, const Json& value) {
  const Json* found = find(key);
  if (found != nullptr && *found != value)
    refuse(key, fmt::format("is {}, and only {} is supported", found->dump(), value.dump()));
}

void ConfigReader::ignore(std::initializer_list<std::string_view> keys) {
  for (const std::string_view key : keys) read_.emplace(key);
}

void ConfigReader::finish() const {
  std::vector<std::string> unread;
  for (const auto& [key, value] : config_.items())
    if (!read_.contains(key) && !value.is_null()) unread.push_back(key);
  if (!unread.empty()) log::warn("config keys_not_used=\"{}\" file={}", fmt::join(unread, ", "), place_);
}

}  // namespace braid
