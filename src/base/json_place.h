// A value inside a JSON document together with its place, so that every complaint can name it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/json.h"

namespace braid {

// Does not own the document. Every fault is an Input error that begins with the place: "messages[1].role: ...".
class JsonPlace {
 public:
  JsonPlace(const Json& value, std::string path) : value_(&value), path_(std::move(path)) {}

  const std::string& path() const { return path_; }
  bool is_null() const { return value_->is_null(); }
  bool is_string() const { return value_->is_string(); }
  bool is_object() const { return value_->is_object(); }
  bool is_array() const { return value_->is_array(); }

  // A member of an object that has to be there.
  JsonPlace at(const std::string& key) const;
  // Whether the object has the member and it is not null.
  bool has(const std::string& key) const;
  // The elements of an array.
  std::vector<JsonPlace> elements() const;

  const std::string& text() const;
  bool boolean() const;
  int64_t integer() const;
  double number() const;
  // The same with a value for a member that is absent or null.
  bool boolean_or(const std::string& key, bool otherwise) const;
  std::string text_or(const std::string& key, const std::string& otherwise) const;

  // Throws "<path>: <message>".
  [[noreturn]] void refuse(const std::string& message) const;

 private:
  const Json* value_;
  std::string path_;
};

}  // namespace braid
