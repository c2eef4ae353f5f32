// Only what is easily shown counts; in doubt schemas overlap.
// SPDX-License-Identifier: Apache-2.0
#include "text/grammar/schema/disjoint.h"

#include <algorithm>

#include "base/error.h"

namespace braid {
namespace {

constexpr int kDeepest = 8;
constexpr size_t kMostChoices = 300;  // compared two by two

Conjunction property(const Facts& facts, const std::string& name) {
  Conjunction value;
  for (const SchemaAt& at : facts.members) {
    const auto properties = at.schema->find("properties");
    if (properties != at.schema->end() && properties->contains(name)) {
      value.push_back({&properties->at(name), at.path + ".properties." + name});
    }
  }
  return value;
}

// A member says that there is no property of this name.
bool forbids(const Facts& facts, const std::string& name) {
  return std::any_of(facts.members.begin(), facts.members.end(), [&](const SchemaAt& at) {
    const Json& schema = *at.schema;
    const auto others = schema.find("additionalProperties");
    const bool closed = others != schema.end() && *others == Json(false) && !schema.contains("patternProperties");
    return closed && !(schema.contains("properties") && schema.at("properties").contains(name));
  });
}

bool are_disjoint(const FactsReader& reader, const Facts& a, const Facts& b, int depth) {
  if (a.impossible || b.impossible || (a.types & b.types) == 0) return true;
  if (a.values || b.values) {
    const Facts &listed = a.values ? a : b, &other = a.values ? b : a;
    const bool none = std::none_of(listed.values->begin(), listed.values->end(), [&](const Json& value) {
      return FactsReader::allows(listed, value) && FactsReader::allows(other, value);
    });
    if (none) return true;
  }
  const uint8_t shared = a.types & b.types;
  if (shared != kObject || depth >= kDeepest) return false;
  for (const auto& [one, two] : {std::pair(&a, &b), std::pair(&b, &a)}) {
    for (const std::string& name : one->required) {
      if (forbids(*two, name)) return true;
      const bool both = std::find(two->required.begin(), two->required.end(), name) != two->required.end();
      if (!both) continue;
      const Facts left = reader.read(property(*one, name)), right = reader.read(property(*two, name));
      if (are_disjoint(reader, left, right, depth + 1)) return true;
    }
  }
  return false;
}

}  // namespace

void check_disjoint(const FactsReader& reader, const std::vector<Conjunction>& choices, const SchemaAt& at) {
  if (choices.size() > kMostChoices) refuse_schema(at, "oneOf", "too many alternatives");
  std::vector<Facts> facts;
  for (const Conjunction& choice : choices) facts.push_back(reader.read(choice));
  for (size_t i = 0; i < facts.size(); ++i) {
    for (size_t j = 0; j < i; ++j) {
      if (are_disjoint(reader, facts[j], facts[i], 0)) continue;
      refuse_schema(at, "oneOf",
                    fmt::format("alternatives {} and {} may overlap; if that is no matter, say anyOf", j, i));
    }
  }
}

}  // namespace braid
