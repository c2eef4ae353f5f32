// Facts: what a set of JSON schemas, all of which must hold, says about a value, by kind of value.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "text/grammar/character_automaton.h"
#include "text/grammar/number_range.h"

namespace braid {

// A schema inside the document, with the path that messages show. A resolved group is one of whose alternatives an own
// member of the conjunction is.
struct SchemaAt {
  const Json* schema = nullptr;
  std::string path;
  bool any_of_resolved = false, one_of_resolved = false;
  bool expanded = false;  // what it refers to, and the parts of its allOf, are members as well

  SchemaAt at(const std::string& key) const;
  SchemaAt at(const std::string& key, size_t index) const;
};

using Conjunction = std::vector<SchemaAt>;

enum TypeBit : uint8_t {
  kNull = 1,
  kBoolean = 2,
  kInteger = 4,
  kFraction = 8,
  kString = 16,
  kArray = 32,
  kObject = 64
};
inline constexpr uint8_t kNumber = kInteger | kFraction, kAnyType = 127;

struct Facts {
  bool impossible = false;
  uint8_t types = kAnyType;
  Conjunction members;                      // without references: each is an object
  std::optional<std::vector<Json>> values;  // enum and const: one of these
  std::optional<SchemaAt> any_of, one_of;   // the first member with an unresolved group

  NumberRange number;
  uint32_t least_length = 0, most_length = kUnbounded;
  std::vector<std::string> patterns;        // search anywhere in the string
  std::vector<std::string> whole_patterns;  // match all of it
  uint32_t least_items = 0, most_items = kUnbounded;
  uint32_t least_properties = 0, most_properties = kUnbounded;
  std::vector<std::string> required;
  bool has_object_words = false, has_array_words = false;
};

// Throws Input errors that name the path: "$.properties.a.unevaluatedItems: not supported".
class FactsReader {
 public:
  // The document outlives it.
  explicit FactsReader(const Json& root) : root_(root) {}

  Facts read(const Conjunction& conjunction) const;
  // A string's facts as one automaton; nothing where every string will do.
  static std::optional<CharacterAutomaton> strings(const Facts& facts);
  // Whether a value is one of those that the facts allow. Not for values within which there is more to check.
  static bool allows(const Facts& facts, const Json& value);

 private:
  void add(const SchemaAt& at, Facts& facts, int depth) const;
  SchemaAt resolve(const SchemaAt& at) const;

  const Json& root_;
};

[[noreturn]] void refuse_schema(const SchemaAt& at, const std::string& key, const std::string& what);

}  // namespace braid
