// Each name gets, from each schema, what it says of it; other names are cut into classes by the patterns.
// SPDX-License-Identifier: Apache-2.0
#include "text/grammar/schema/members.h"

#include <algorithm>
#include <optional>

#include "base/error.h"

namespace braid {
namespace {

constexpr size_t kMostPatterns = 6;  // of names: they make up to 2^n classes

struct NamePattern {
  SchemaAt of;     // the schema that has it
  SchemaAt value;  // that values must match
  CharacterAutomaton names;
};

class MembersReader {
 public:
  MembersReader(const FactsReader& reader, const Facts& facts, bool closed)
      : reader_(reader), facts_(facts), closed_(closed) {}

  Members read() {
    for (const SchemaAt& at : facts_.members) read_patterns(at);
    for (const SchemaAt& at : facts_.members) {
      const auto properties = at.schema->find("properties");
      if (properties == at.schema->end()) continue;
      for (const auto& [name, schema] : properties->items()) add_named(name);
    }
    for (const std::string& name : facts_.required) add_named(name);
    read_others();
    return std::move(members_);
  }

 private:
  void read_patterns(const SchemaAt& at) {
    if (at.schema->contains("propertyNames")) {
      Conjunction names{at.at("propertyNames")};
      Facts facts = reader_.read(names);
      if (facts.any_of || facts.one_of) refuse_schema(at, "propertyNames", "anyOf and oneOf are not supported here");
      name_facts_.push_back(std::move(facts));
    }
    const auto patterns = at.schema->find("patternProperties");
    if (patterns == at.schema->end()) return;
    const SchemaAt all = at.at("patternProperties");
    for (const auto& [pattern, schema] : patterns->items()) {
      const std::string path = all.path + "." + pattern;
      const std::string& text = pattern;
      CharacterAutomaton names =
          with_context(path, [&] { return CharacterAutomaton::of(parse_regex(text, RegexScope::Search)); });
      patterns_.push_back({at, {&schema, path}, std::move(names)});
    }
    if (patterns_.size() > kMostPatterns) {
      refuse_schema(at, "patternProperties", fmt::format("more than {} patterns are not supported", kMostPatterns));
    }
  }

  // What `at` says of a name that matches the patterns in `matched`.
  void add_value(const SchemaAt& at, const std::vector<bool>& matched, bool is_named, Conjunction& value) const {
    bool spoken_of = is_named;
    for (size_t i = 0; i < patterns_.size(); ++i) {
      if (!matched[i] || patterns_[i].of.schema != at.schema) continue;
      value.push_back(patterns_[i].value);
      spoken_of = true;
    }
    if (spoken_of) return;
    if (at.schema->contains("additionalProperties")) {
      value.push_back(at.at("additionalProperties"));
    } else if (closed_ && at.schema->contains("properties")) {
      static const Json kNone = false;
      value.push_back({&kNone, at.path});
    }
  }

  void add_named(const std::string& name) {
    for (const Members::Named& known : members_.named) {
      if (known.name == name) return;
    }
    Members::Named named{.name = name};
    named.required = std::find(facts_.required.begin(), facts_.required.end(), name) != facts_.required.end();
    std::vector<bool> matched;
    for (const NamePattern& pattern : patterns_) matched.push_back(pattern.names.matches(name));
    for (const SchemaAt& at : facts_.members) {
      const auto properties = at.schema->find("properties");
      const bool is_named = properties != at.schema->end() && properties->contains(name);
      if (is_named) named.value.push_back({&properties->at(name), at.path + ".properties." + name});
      add_value(at, matched, is_named, named.value);
    }
    for (const Facts& names : name_facts_) {
      if (!FactsReader::allows(names, Json(name))) named.value.push_back({&never_, "$"});
    }
    members_.named.push_back(std::move(named));
  }

  void read_others() {
    std::vector<std::string> taken;
    for (const Members::Named& named : members_.named) taken.push_back(named.name);
    CharacterAutomaton all = CharacterAutomaton::of_length(0, kUnbounded);
    for (const Facts& names : name_facts_) {
      if ((names.types & kString) == 0) return;
      if (const auto strings = FactsReader::strings(names)) all = all & *strings;
      if (!names.values) continue;
      std::vector<std::string> values;
      for (const Json& value : *names.values) {
        if (value.is_string()) values.push_back(value.get<std::string>());
      }
      all = all & CharacterAutomaton::of_texts(values);
    }
    const bool closed = std::any_of(facts_.members.begin(), facts_.members.end(), [&](const SchemaAt& at) {
      const auto others = at.schema->find("additionalProperties");
      return others != at.schema->end() && *others == Json(false);
    });
    if (closed && patterns_.empty()) return;  // nothing else may come: no need to look for names
    if (!taken.empty()) all = all - CharacterAutomaton::of_texts(taken);
    for (size_t choice = 0; choice < size_t{1} << patterns_.size(); ++choice) {
      std::vector<bool> matched;
      for (size_t i = 0; i < patterns_.size(); ++i) matched.push_back((choice >> i & 1) != 0);
      Conjunction value;
      for (const SchemaAt& at : facts_.members) add_value(at, matched, false, value);
      if (reader_.read(value).impossible) continue;
      CharacterAutomaton names = all;
      for (size_t i = 0; i < patterns_.size(); ++i) {
        names = matched[i] ? names & patterns_[i].names : names - patterns_[i].names;
      }
      if (!names.empty()) members_.others.push_back({std::move(names), std::move(value)});
    }
  }

  inline static const Json never_ = false;
  const FactsReader& reader_;
  const Facts& facts_;
  bool closed_;
  std::vector<NamePattern> patterns_;
  std::vector<Facts> name_facts_;
  Members members_;
};

}  // namespace

Members read_members(const FactsReader& reader, const Facts& facts, bool closed) {
  return MembersReader(reader, facts, closed).read();
}

}  // namespace braid
