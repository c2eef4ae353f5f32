// Reading config.json: typed values by key, refusals of values that are not supported, names of keys that nobody read.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"

namespace braid {

// Every error names the place and the key. A key whose value is null counts as absent.
class ConfigReader {
 public:
  // `config` must outlive the reader. `place` names the file for messages.
  ConfigReader(const Json& config, std::string place);

  bool has(std::string_view key) const;
  int64_t integer(std::string_view key);  // required
  int64_t integer(std::string_view key, int64_t otherwise);
  double number(std::string_view key, double otherwise);
  bool flag(std::string_view key, bool otherwise);
  std::string text(std::string_view key, const std::string& otherwise);
  std::vector<std::string> texts(std::string_view key);  // absent: empty
  const Json* object(std::string_view key);              // absent: null
  // A width, a vocabulary and the like: far beyond any model.
  static constexpr int64_t kMostSize = int64_t{1} << 24;
  // A required integer in [1, largest].
  int64_t size(std::string_view key, int64_t largest = kMostSize);
  // An integer in [0, largest], or `otherwise`.
  int64_t count(std::string_view key, int64_t otherwise, int64_t largest = kMostSize);
  std::vector<int64_t> counts(std::string_view key, int64_t largest = kMostSize);  // absent: empty
  // An integer in [1, kMostSize] under the first of several spellings that is there; none: `otherwise`, or an error
  // when that is absent too.
  int64_t size_of(std::initializer_list<std::string_view> keys, std::optional<int64_t> otherwise = std::nullopt);

  // Refuses a present key with another value: it would change the mathematics.
  void expect(std::string_view key, const Json& value);
  // Keys that do not change what is computed.
  void ignore(std::initializer_list<std::string_view> keys);
  // Warns once of keys that nobody read.
  void finish() const;

  [[noreturn]] void refuse(std::string_view key, const std::string& why) const;
  const std::string& place() const { return place_; }

 private:
  const Json* find(std::string_view key);
  const Json& config_;
  std::string place_;
  std::set<std::string, std::less<>> read_;
};

}  // namespace braid
