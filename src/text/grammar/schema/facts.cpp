// Reading of the keywords, one function for each kind of value.
// SPDX-License-Identifier: Apache-2.0
#include "text/grammar/schema/facts.h"

#include <algorithm>
#include <cctype>
#include <map>
#include <set>

#include "base/error.h"
#include "text/grammar/schema/formats.h"

namespace braid {
namespace {

constexpr int kMostReferences = 200;  // of a schema to a schema that is only a reference, and so on
constexpr uint32_t kMostCount = 1u << 20;
constexpr size_t kMostComparisons = 1u << 22;  // of the values of two lists

// Keywords that limit values and cannot be kept by an automaton of this kind, or are not yet.
const std::set<std::string, std::less<>> kUnsupported{"not",
                                                      "if",
                                                      "then",
                                                      "else",
                                                      "dependentRequired",
                                                      "dependentSchemas",
                                                      "dependencies",
                                                      "unevaluatedProperties",
                                                      "unevaluatedItems",
                                                      "contains",
                                                      "minContains",
                                                      "maxContains",
                                                      "$dynamicRef",
                                                      "$recursiveRef",
                                                      "extends",
                                                      "disallow",
                                                      "divisibleBy"};

const std::map<std::string, uint8_t, std::less<>> kTypes{
    {"null", kNull},     {"boolean", kBoolean}, {"integer", kInteger}, {"number", kNumber},
    {"string", kString}, {"array", kArray},     {"object", kObject}};

// The kind of value that a keyword speaks of.
const std::map<std::string, uint8_t, std::less<>> kKeywordTypes{{"minimum", kNumber},
                                                                {"maximum", kNumber},
                                                                {"exclusiveMinimum", kNumber},
                                                                {"exclusiveMaximum", kNumber},
                                                                {"multipleOf", kNumber},
                                                                {"minLength", kString},
                                                                {"maxLength", kString},
                                                                {"pattern", kString},
                                                                {"format", kString},
                                                                {"items", kArray},
                                                                {"prefixItems", kArray},
                                                                {"additionalItems", kArray},
                                                                {"minItems", kArray},
                                                                {"maxItems", kArray},
                                                                {"uniqueItems", kArray},
                                                                {"properties", kObject},
                                                                {"required", kObject},
                                                                {"additionalProperties", kObject},
                                                                {"patternProperties", kObject},
                                                                {"propertyNames", kObject},
                                                                {"minProperties", kObject},
                                                                {"maxProperties", kObject}};

uint32_t read_count(const SchemaAt& at, const std::string& key, bool is_most) {
  const Json& value = at.schema->at(key);
  const double number = value.is_number() ? value.get<double>() : -1.0;
  if (number < 0.0 || number != static_cast<double>(static_cast<uint64_t>(std::min(number, 1e18)))) {
    refuse_schema(at, key, "expected a whole number of at least 0");
  }
  if (is_most && number > kMostCount) return kUnbounded;  // no answer is that long
  if (number > kMostCount) refuse_schema(at, key, "too large");
  return static_cast<uint32_t>(number);
}

void add_types(const SchemaAt& at, Facts& facts) {
  const Json& schema = *at.schema;
  uint8_t types = 0;
  if (const auto type = schema.find("type"); type != schema.end()) {
    const auto add = [&](const Json& name) {
      const auto known = name.is_string() ? kTypes.find(name.get<std::string>()) : kTypes.end();
      if (known == kTypes.end()) refuse_schema(at, "type", "unknown type " + name.dump());
      types |= known->second;
    };
    if (type->is_array()) {
      for (const Json& name : *type) add(name);
    } else {
      add(*type);
    }
    facts.types &= types;
  } else if (!schema.contains("enum") && !schema.contains("const")) {
    for (const auto& [key, value] : schema.items()) {
      if (const auto known = kKeywordTypes.find(key); known != kKeywordTypes.end()) types |= known->second;
    }
    if (types != 0) facts.types &= types;
  }
}

void add_values(const SchemaAt& at, Facts& facts) {
  const auto keep = [&](const std::vector<Json>& values) {
    if (!facts.values) {
      facts.values = values;
      return;
    }
    if (facts.values->size() * values.size() > kMostComparisons) refuse_schema(at, "enum", "too many values");
    std::erase_if(*facts.values,
                  [&](const Json& value) { return std::find(values.begin(), values.end(), value) == values.end(); });
  };
  const Json& schema = *at.schema;
  if (const auto one = schema.find("const"); one != schema.end()) keep({*one});
  if (const auto some = schema.find("enum"); some != schema.end()) {
    if (!some->is_array()) refuse_schema(at, "enum", "expected a list");
    keep({some->begin(), some->end()});
  }
}

std::strong_ordering compare(const Decimal& a, const Decimal& b) {
  if (a.negative != b.negative) return a.negative ? std::strong_ordering::less : std::strong_ordering::greater;
  const Decimal &low = a.negative ? b : a, &high = a.negative ? a : b;
  if (const auto size = low.whole.size() <=> high.whole.size(); size != 0) return size;
  if (const auto whole = low.whole.compare(high.whole) <=> 0; whole != 0) return whole;
  return low.fraction.compare(high.fraction) <=> 0;
}

void add_bound(const SchemaAt& at, const std::string& key, Facts& facts, bool exclusive) {
  const Json& value = at.schema->at(key);
  if (!value.is_number()) refuse_schema(at, key, "expected a number");
  const bool is_least = key == "minimum" || key == "exclusiveMinimum";
  const double number = value.get<double>();
  if (is_least ? number <= -1e21 : number >= 1e21) return;  // beyond what is written
  const std::optional<Decimal> decimal = parse_decimal(value.dump());
  if (!decimal) refuse_schema(at, key, "too many digits");
  std::optional<NumberBound>& bound = is_least ? facts.number.least : facts.number.most;
  const NumberBound next{*decimal, exclusive};
  if (!bound) {
    bound = next;
    return;
  }
  const auto order = compare(next.value, bound->value);
  if (order == 0) bound->exclusive = bound->exclusive || exclusive;
  if (is_least ? order > 0 : order < 0) bound = next;
}

void add_number_words(const SchemaAt& at, Facts& facts) {
  const Json& schema = *at.schema;
  for (const char* side : {"inimum", "aximum"}) {
    const std::string end = side, plain = "m" + end, exclusive = "exclusiveM" + end;
    const auto word = schema.find(exclusive);
    const bool flag = word != schema.end() && word->is_boolean();  // draft 4: says how the other is meant
    if (schema.contains(plain)) add_bound(at, plain, facts, flag && word->get<bool>());
    if (word != schema.end() && !flag) add_bound(at, exclusive, facts, true);
  }
  const auto multiple = schema.find("multipleOf");
  if (multiple == schema.end()) return;
  if (!multiple->is_number() || multiple->get<double>() <= 0)
    refuse_schema(at, "multipleOf", "expected a positive number");
  const std::optional<Decimal> step = parse_decimal(multiple->dump());
  if (!step) refuse_schema(at, "multipleOf", "too many digits");
  if (step->fraction.empty() && step->whole.size() <= 4 &&
      static_cast<uint32_t>(std::stoul(step->whole)) <= NumberRange::kMostMultiple) {
    const auto value = static_cast<uint32_t>(std::stoul(step->whole));
    if (facts.number.multiple_of != 1 && facts.number.multiple_of != value) {
      refuse_schema(at, "multipleOf", "several of them are not supported");
    }
    facts.number.multiple_of = value;
    facts.number.fraction = 0;
    facts.types &= static_cast<uint8_t>(~kFraction);
  } else if (step->whole == "0" && step->fraction.back() == '1' &&
             step->fraction.find_first_not_of('0') + 1 == step->fraction.size()) {
    facts.number.fraction = std::min(facts.number.fraction, static_cast<uint32_t>(step->fraction.size()));
  } else {
    refuse_schema(
        at, "multipleOf",
        fmt::format("only whole numbers up to {} and powers of ten below 1 are supported", NumberRange::kMostMultiple));
  }
}

void add_string_words(const SchemaAt& at, Facts& facts) {
  const Json& schema = *at.schema;
  if (schema.contains("minLength")) {
    facts.least_length = std::max(facts.least_length, read_count(at, "minLength", false));
  }
  if (schema.contains("maxLength")) facts.most_length = std::min(facts.most_length, read_count(at, "maxLength", true));
  const auto word = [&](const std::string& key) -> std::optional<std::string> {
    const auto found = schema.find(key);
    if (found == schema.end()) return std::nullopt;
    if (!found->is_string()) refuse_schema(at, key, "expected a string");
    return found->get<std::string>();
  };
  const auto add = [](std::vector<std::string>& list, const std::string& text) {
    if (std::find(list.begin(), list.end(), text) == list.end()) list.push_back(text);
  };
  if (const auto pattern = word("pattern")) {
    try {
      parse_regex(*pattern, RegexScope::Search);
    } catch (Error& error) {
      error.add_context(at.path + ".pattern");
      throw;
    }
    add(facts.patterns, *pattern);
  }
  if (const auto format = word("format")) {
    const std::optional<std::string> pattern = format_pattern(*format);
    if (!pattern) refuse_schema(at, "format", "'" + *format + "' is not supported");
    add(facts.whole_patterns, *pattern);
  }
}

void check_kind(const SchemaAt& at, const std::string& key, bool is_right, const char* kind) {
  if (!is_right) refuse_schema(at, key, std::string("expected ") + kind);
}

void add_array_words(const SchemaAt& at, Facts& facts) {
  const Json& schema = *at.schema;
  if (schema.contains("minItems")) facts.least_items = std::max(facts.least_items, read_count(at, "minItems", false));
  if (schema.contains("maxItems")) facts.most_items = std::min(facts.most_items, read_count(at, "maxItems", true));
  for (const auto& [key, value] : schema.items()) {
    if (key == "prefixItems") check_kind(at, key, value.is_array(), "a list");
    if (key == "uniqueItems" && value != Json(false) && facts.most_items > 1) {
      refuse_schema(at, key, "not supported");
    }
    facts.has_array_words = facts.has_array_words || key == "items" || key == "prefixItems" || key == "minItems" ||
                            key == "maxItems" || key == "additionalItems";
  }
}

void add_object_words(const SchemaAt& at, Facts& facts) {
  const Json& schema = *at.schema;
  if (schema.contains("minProperties")) {
    facts.least_properties = std::max(facts.least_properties, read_count(at, "minProperties", false));
  }
  if (schema.contains("maxProperties")) {
    facts.most_properties = std::min(facts.most_properties, read_count(at, "maxProperties", true));
  }
  for (const auto& [key, value] : schema.items()) {
    if (key == "properties" || key == "patternProperties") check_kind(at, key, value.is_object(), "an object");
    if (key == "required") {
      check_kind(at, key, value.is_array(), "a list of names");
      for (const Json& name : value) {
        check_kind(at, key, name.is_string(), "a list of names");
        const auto text = name.get<std::string>();
        if (std::find(facts.required.begin(), facts.required.end(), text) == facts.required.end()) {
          facts.required.push_back(text);
        }
      }
    }
    const auto known = kKeywordTypes.find(key);
    facts.has_object_words = facts.has_object_words || (known != kKeywordTypes.end() && known->second == kObject);
  }
}

}  // namespace

void refuse_schema(const SchemaAt& at, const std::string& key, const std::string& what) {
  fail("{}.{}: {}", at.path, key, what);
}

SchemaAt SchemaAt::at(const std::string& key) const { return {&schema->at(key), path + "." + key}; }

SchemaAt SchemaAt::at(const std::string& key, size_t index) const {
  return {&schema->at(key).at(index), fmt::format("{}.{}[{}]", path, key, index)};
}

Facts FactsReader::read(const Conjunction& conjunction) const {
  Facts facts;
  for (const SchemaAt& at : conjunction) add(at, facts, 0);
  for (const SchemaAt& at : facts.members) {
    const Json& schema = *at.schema;
    if (!facts.any_of && !at.any_of_resolved && schema.contains("anyOf")) facts.any_of = at;
    if (!facts.one_of && !at.one_of_resolved && schema.contains("oneOf")) facts.one_of = at;
  }
  if (facts.least_length > facts.most_length) facts.types &= static_cast<uint8_t>(~kString);
  if (facts.least_items > facts.most_items) facts.types &= static_cast<uint8_t>(~kArray);
  if (facts.least_properties > facts.most_properties) facts.types &= static_cast<uint8_t>(~kObject);
  if (facts.types == 0) facts.impossible = true;
  return facts;
}

void FactsReader::add(const SchemaAt& at, Facts& facts, int depth) const {
  const Json& schema = *at.schema;
  if (schema.is_boolean()) {
    facts.impossible = facts.impossible || !schema.get<bool>();
    return;
  }
  if (!schema.is_object()) fail("{}: expected a schema: an object, true or false", at.path);
  if (depth > kMostReferences) fail("{}: refers to itself, or through too many references", at.path);
  for (const SchemaAt& member : facts.members) {
    const bool same = member.schema == at.schema && member.any_of_resolved == at.any_of_resolved &&
                      member.one_of_resolved == at.one_of_resolved;
    if (same) return;
  }
  for (const auto& [key, value] : schema.items()) {
    if (kUnsupported.contains(key)) refuse_schema(at, key, "not supported");
  }
  for (const char* key : {"anyOf", "oneOf", "allOf"}) {
    const auto group = schema.find(key);
    if (group != schema.end()) check_kind(at, key, group->is_array() && !group->empty(), "a list of schemas");
  }
  if (!at.expanded && schema.contains("$ref")) add(resolve(at), facts, depth + 1);
  facts.members.push_back(at);
  facts.members.back().expanded = true;
  add_types(at, facts);
  add_values(at, facts);
  add_number_words(at, facts);
  add_string_words(at, facts);
  add_array_words(at, facts);
  add_object_words(at, facts);
  if (at.expanded || !schema.contains("allOf")) return;
  for (size_t i = 0; i < schema.at("allOf").size(); ++i) add(at.at("allOf", i), facts, depth + 1);
}

SchemaAt FactsReader::resolve(const SchemaAt& at) const {
  const Json& reference = at.schema->at("$ref");
  if (!reference.is_string()) refuse_schema(at, "$ref", "expected a string");
  const auto text = reference.get<std::string>();
  if (text != "#" && !text.starts_with("#/")) {
    refuse_schema(at, "$ref", "only references within the schema (#/...) are supported");
  }
  SchemaAt target{&root_, "$"};
  for (size_t begin = 2; begin <= text.size();) {
    const size_t end = std::min(text.find('/', begin), text.size());
    std::string key;
    for (size_t i = begin; i < end; ++i) {
      const std::string_view rest = std::string_view(text).substr(i, 2);
      const bool tilde = rest == "~0" || rest == "~1";
      if (tilde) ++i;
      const bool coded = text[i] == '%' && i + 2 < end && std::isxdigit(static_cast<unsigned char>(text[i + 1])) != 0 &&
                         std::isxdigit(static_cast<unsigned char>(text[i + 2])) != 0;
      if (coded) {
        key += static_cast<char>(std::stoi(text.substr(i + 1, 2), nullptr, 16));
        i += 2;
      } else {
        key += tilde ? (rest == "~0" ? '~' : '/') : text[i];
      }
    }
    const Json& here = *target.schema;
    if (here.is_object() && here.contains(key)) {
      target = target.at(key);
    } else if (here.is_array() && !key.empty() && key.size() < 8 && std::all_of(key.begin(), key.end(), ::isdigit) &&
               std::stoul(key) < here.size()) {
      target = {&here.at(std::stoul(key)), target.path + "[" + key + "]"};
    } else {
      refuse_schema(at, "$ref", "there is no '" + text + "'");
    }
    begin = end + 1;
  }
  return target;
}

std::optional<CharacterAutomaton> FactsReader::strings(const Facts& facts) {
  std::optional<CharacterAutomaton> all;
  const auto cut = [&](const CharacterAutomaton& next) { all = all ? *all & next : next; };
  for (const std::string& pattern : facts.whole_patterns) {
    cut(CharacterAutomaton::of(parse_regex(pattern, RegexScope::Whole)));
  }
  for (const std::string& pattern : facts.patterns) {
    cut(CharacterAutomaton::of(parse_regex(pattern, RegexScope::Search)));
  }
  if (facts.least_length > 0 || facts.most_length != kUnbounded) {
    cut(CharacterAutomaton::of_length(facts.least_length, facts.most_length));
  }
  return all;
}

bool FactsReader::allows(const Facts& facts, const Json& value) {
  uint8_t type = kNull;
  if (value.is_boolean()) type = kBoolean;
  if (value.is_string()) type = kString;
  if (value.is_array()) type = kArray;
  if (value.is_object()) type = kObject;
  std::optional<Decimal> decimal;
  if (value.is_number()) {
    decimal = parse_decimal(value.dump());
    type = decimal && decimal->fraction.empty() ? kInteger : kFraction;
  }
  if (facts.impossible || (facts.types & type) == 0) return false;
  if (facts.values && std::find(facts.values->begin(), facts.values->end(), value) == facts.values->end()) return false;
  if (type == kString) {
    const std::optional<CharacterAutomaton> strings = FactsReader::strings(facts);
    return !strings || strings->matches(value.get<std::string>());
  }
  if ((type & kNumber) == 0 || !decimal) return true;
  const auto inside = [&](const std::optional<NumberBound>& bound, bool is_least) {
    if (!bound) return true;
    const auto order = compare(*decimal, bound->value);
    return (order == 0 && !bound->exclusive) || (is_least ? order > 0 : order < 0);
  };
  if (decimal->fraction.size() > facts.number.fraction) return false;
  if (type == kInteger && facts.number.multiple_of > 1 && decimal->whole.size() <= 18 &&
      std::stoull(decimal->whole) % facts.number.multiple_of != 0) {
    return false;
  }
  return inside(facts.number.least, true) && inside(facts.number.most, false);
}

}  // namespace braid
