// SPDX-License-Identifier: Apache-2.0
#include "base/json_place.h"

#include "base/error.h"

namespace braid {

JsonPlace JsonPlace::at(const std::string& key) const {
  if (!is_object()) refuse("expected an object");
  const auto found = value_->find(key);
  const std::string path = path_.empty() ? key : path_ + "." + key;
  if (found == value_->end()) fail("{}: missing", path);
  return {*found, path};
}

bool JsonPlace::has(const std::string& key) const {
  if (!is_object()) refuse("expected an object");
  const auto found = value_->find(key);
  return found != value_->end() && !found->is_null();
}

std::vector<JsonPlace> JsonPlace::elements() const {
  if (!is_array()) refuse("expected an array");
  std::vector<JsonPlace> places;
  for (size_t i = 0; i < value_->size(); ++i) places.emplace_back((*value_)[i], fmt::format("{}[{}]", path_, i));
  return places;
}

const std::string& JsonPlace::text() const {
  if (!is_string()) refuse("expected a string");
  return value_->get_ref<const std::string&>();
}

bool JsonPlace::boolean() const {
  if (!value_->is_boolean()) refuse("expected true or false");
  return value_->get<bool>();
}

int64_t JsonPlace::integer() const {
  if (!value_->is_number_integer()) refuse("expected a whole number");
  return value_->get<int64_t>();
}

double JsonPlace::number() const {
  if (!value_->is_number()) refuse("expected a number");
  return value_->get<double>();
}

bool JsonPlace::boolean_or(const std::string& key, bool otherwise) const {
  return has(key) ? at(key).boolean() : otherwise;
}

std::string JsonPlace::text_or(const std::string& key, const std::string& otherwise) const {
  return has(key) ? at(key).text() : otherwise;
}

void JsonPlace::refuse(const std::string& message) const { fail("{}: {}", path_, message); }

}  // namespace braid
