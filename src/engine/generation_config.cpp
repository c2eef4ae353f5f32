// SPDX-License-Identifier: Apache-2.0
#include "engine/generation_config.h"

#include <algorithm>
#include <limits>
#include <optional>

#include "base/error.h"

namespace braid {
namespace {

// Values of an object by key, with errors that name file and key.
class Reader {
 public:
  Reader(const Json& json, const std::string& name) : json_(json), name_(name) {
    if (!json.is_object()) fail("{}: expected an object, found {}", name, json.type_name());
  }

  // Absent and null are nothing.
  const Json* find(const char* key) const {
    const auto found = json_.find(key);
    return found == json_.end() || found->is_null() ? nullptr : &*found;
  }

  std::optional<bool> boolean(const char* key) const {
    const Json* value = find(key);
    if (value == nullptr) return std::nullopt;
    if (!value->is_boolean()) wrong(key, "true or false", *value);
    return value->get<bool>();
  }

  struct Range {
    double low, high;
    const char* words;
  };
  std::optional<float> number(const char* key, const Range& range) const {
    const Json* value = find(key);
    if (value == nullptr) return std::nullopt;
    if (!value->is_number() || !(value->get<double>() >= range.low && value->get<double>() <= range.high))
      wrong(key, range.words, *value);
    return value->get<float>();
  }

  // A whole number; -1, as some files write, is 0.
  std::optional<int32_t> count(const char* key) const {
    const Json* value = find(key);
    if (value == nullptr) return std::nullopt;
    if (!value->is_number_integer() || !(value->get<double>() >= -1 && value->get<double>() <= kMostToken))
      wrong(key, "a whole number from 0", *value);
    return std::max(value->get<int32_t>(), 0);
  }

  int32_t token(const char* key, const Json& value) const {
    if (!value.is_number_integer() || !(value.get<double>() >= 0 && value.get<double>() <= kMostToken))
      wrong(key, "a token id or a list of them", value);
    return value.get<int32_t>();
  }

 private:
  static constexpr double kMostToken = std::numeric_limits<int32_t>::max();
  [[noreturn]] void wrong(const char* key, const char* expected, const Json& found) const {
    std::string text = found.dump(-1, ' ', true, Json::error_handler_t::replace);
    if (text.size() > 60) text = text.substr(0, 60) + "...";
    fail("{}: {}: expected {}, found {}", name_, key, expected, text);
  }
  const Json& json_;
  const std::string& name_;
};

constexpr double kMost = std::numeric_limits<float>::max();

}  // namespace

Sampling with_overrides(Sampling sampling, const SamplingOverrides& overrides) {
  const auto set = [](auto& field, const auto& value) {
    if (value) field = *value;
  };
  set(sampling.temperature, overrides.temperature);
  set(sampling.top_k, overrides.top_k);
  set(sampling.top_p, overrides.top_p);
  set(sampling.min_p, overrides.min_p);
  set(sampling.penalties.repetition, overrides.repetition);
  set(sampling.penalties.frequency, overrides.frequency);
  set(sampling.penalties.presence, overrides.presence);
  return sampling;
}

std::vector<int32_t> parse_end_tokens(const Json& json, const std::string& name) {
  const Reader reader(json, name);
  std::vector<int32_t> tokens;
  const Json* value = reader.find("eos_token_id");
  if (value == nullptr) return tokens;
  if (!value->is_array()) return {reader.token("eos_token_id", *value)};
  for (const Json& item : *value) tokens.push_back(reader.token("eos_token_id", item));
  return tokens;
}

GenerationConfig parse_generation_config(const Json& json, const std::string& name) {
  const Reader reader(json, name);
  GenerationConfig config{.end_tokens = parse_end_tokens(json, name)};
  Sampling& sampling = config.sampling;
  const auto read = [&](float& field, const char* key, const Reader::Range& range) {
    if (const auto value = reader.number(key, range)) field = *value;
  };
  read(sampling.temperature, "temperature", {0, kMost, "a number from 0"});
  read(sampling.top_p, "top_p", {0, 1, "a number from 0 to 1"});
  read(sampling.min_p, "min_p", {0, 1, "a number from 0 to 1"});
  read(sampling.penalties.repetition, "repetition_penalty",
       {std::numeric_limits<float>::min(), kMost, "a number above 0"});
  sampling.top_k = reader.count("top_k").value_or(0);
  if (reader.boolean("do_sample") == false) sampling.temperature = 0;
  return config;
}

}  // namespace braid
