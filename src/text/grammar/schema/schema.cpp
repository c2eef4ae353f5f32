// Each set of schemas that must hold together becomes a rule; rules are made from a queue, so references may form
// rings.
// SPDX-License-Identifier: Apache-2.0
#include "text/grammar/schema/schema.h"

#include <algorithm>
#include <map>
#include <set>

#include "base/error.h"
#include "text/grammar/schema/disjoint.h"
#include "text/grammar/schema/facts.h"
#include "text/grammar/schema/members.h"

namespace braid {
namespace {

constexpr size_t kMostRules = 20'000;
constexpr size_t kMostTracks = 50'000;  // states of an object that counts its properties

// What two conjunctions share if they say the same.
using Key = std::vector<std::pair<const Json*, int>>;

Key key_of(const Facts& facts) {
  Key key;
  for (const SchemaAt& at : facts.members) {
    key.emplace_back(at.schema, (at.any_of_resolved ? 1 : 0) + (at.one_of_resolved ? 2 : 0));
  }
  std::sort(key.begin(), key.end());
  return key;
}

class SchemaCompiler {
 public:
  SchemaCompiler(const Json& root, Productions& productions, const SchemaOptions& options)
      : facts_(root), p_(productions), json_(productions, options.space), options_(options) {}

  ExpressionId compile(const Conjunction& conjunction) {
    const ExpressionId start = value(conjunction);
    while (!open_.empty()) {
      const auto [rule, facts] = std::move(open_.back());
      open_.pop_back();
      p_.define(rule, body(facts));
    }
    return start;
  }

 private:
  struct Open {
    RuleId rule;
    Facts facts;
  };

  ExpressionId value(const Conjunction& conjunction) {
    Facts facts = facts_.read(conjunction);
    if (facts.impossible) return p_.nothing();
    const bool grouped = facts.any_of || facts.one_of;
    const bool nested =
        ((facts.types & kArray) != 0 && facts.has_array_words) || ((facts.types & kObject) != 0 && has_members(facts));
    if (!grouped && (!nested || facts.values)) return body(facts);
    const auto [known, is_new] = rules_.try_emplace(key_of(facts), 0);
    if (is_new) {
      if (rules_.size() > kMostRules) fail("the schema is too large: it needs more than {} rules", kMostRules);
      known->second = p_.declare(facts.members.back().path);
      open_.push_back({known->second, std::move(facts)});
    }
    return p_.call(known->second);
  }

  bool has_members(const Facts& facts) const { return facts.has_object_words || options_.closed_objects; }

  ExpressionId body(const Facts& facts) {
    if (facts.one_of) return alternatives(facts, *facts.one_of, "oneOf");
    if (facts.any_of) return alternatives(facts, *facts.any_of, "anyOf");
    if (facts.values) return constants(facts);
    std::vector<ExpressionId> ways;
    if (facts.types == kAnyType && !facts.has_array_words && !has_members(facts) && is_free(facts)) return json_.any();
    if (facts.types & kNull) ways.push_back(p_.bytes("null"));
    if (facts.types & kBoolean) ways.push_back(p_.choice({p_.bytes("true"), p_.bytes("false")}));
    if (facts.types & kNumber) ways.push_back(number(facts));
    if (facts.types & kString) ways.push_back(string(facts));
    if (facts.types & kArray) ways.push_back(facts.has_array_words ? array(facts) : json_.any_array());
    if (facts.types & kObject) ways.push_back(has_members(facts) ? object(facts) : json_.any_object());
    return p_.choice(std::move(ways));
  }

  static bool is_free(const Facts& facts) {
    return !facts.number.least && !facts.number.most && facts.number.fraction == NumberRange::kMostFraction &&
           facts.patterns.empty() && facts.whole_patterns.empty() && facts.least_length == 0 &&
           facts.most_length == kUnbounded;
  }

  ExpressionId alternatives(const Facts& facts, const SchemaAt& at, const std::string& key) {
    Conjunction rest = facts.members;
    for (SchemaAt& member : rest) {
      if (member.schema != at.schema) continue;
      (key == "oneOf" ? member.one_of_resolved : member.any_of_resolved) = true;
    }
    std::vector<Conjunction> choices;
    for (size_t i = 0; i < at.schema->at(key).size(); ++i) {
      choices.push_back(rest);
      choices.back().push_back(at.at(key, i));
    }
    if (key == "oneOf") check_disjoint(facts_, choices, at);
    std::vector<ExpressionId> ways;
    for (const Conjunction& choice : choices) ways.push_back(value(choice));
    return p_.choice(std::move(ways));
  }

  ExpressionId constants(const Facts& facts) {
    std::vector<ExpressionId> ways;
    Facts others = facts;  // each value is one of the list: looking for it again would take the square of its length
    others.values.reset();
    for (const Json& one : *facts.values) {
      const bool unchecked = (one.is_array() && facts.has_array_words) || (one.is_object() && facts.has_object_words);
      if (unchecked) {
        refuse_schema(facts.members.back(), "enum",
                      "arrays and objects beside keywords that limit them are not supported");
      }
      if (FactsReader::allows(others, one)) ways.push_back(json_.constant(one));
    }
    return p_.choice(std::move(ways));
  }

  ExpressionId number(const Facts& facts) {
    NumberRange range = facts.number;
    const bool whole = (facts.types & kFraction) == 0;
    if (whole) range.fraction = 0;
    const bool free = !range.least && !range.most && range.multiple_of == 1;
    if (free && whole) return json_.integer();
    if (free && range.fraction == NumberRange::kMostFraction) return json_.number();
    return numbers_in(range, p_);
  }

  ExpressionId string(const Facts& facts) {
    const bool bounded = facts.least_length > 0 || facts.most_length != kUnbounded;
    if (facts.patterns.empty() && facts.whole_patterns.empty()) {
      return json_.string(facts.least_length, facts.most_length);
    }
    if (!bounded && facts.patterns.size() + facts.whole_patterns.size() == 1) {
      // As it is written: repetitions stay counted instead of being spelt out.
      const bool whole = facts.patterns.empty();
      const std::string& text = whole ? facts.whole_patterns.front() : facts.patterns.front();
      const Regex regex = parse_regex(text, whole ? RegexScope::Whole : RegexScope::Search);
      return json_.quoted(json_.spelling().pattern(regex));
    }
    return with_context(facts.members.back().path,
                        [&] { return json_.quoted(FactsReader::strings(facts)->expression(json_.spelling())); });
  }

  // The schemas of the items from `index` on, or of all behind those with a schema of their own.
  Conjunction items(const Facts& facts, size_t index) const {
    Conjunction all;
    for (const SchemaAt& at : facts.members) {
      const Json& schema = *at.schema;
      const bool listed = schema.contains("items") && schema.at("items").is_array();  // drafts before 2020-12
      const std::string first = listed ? "items" : "prefixItems", rest = listed ? "additionalItems" : "items";
      if (schema.contains(first) && index < schema.at(first).size()) {
        all.push_back(at.at(first, index));
      } else if (schema.contains(rest)) {
        all.push_back(at.at(rest));
      }
    }
    return all;
  }

  ExpressionId array(const Facts& facts) {
    size_t listed = 0;
    for (const SchemaAt& at : facts.members) {
      for (const char* key : {"prefixItems", "items"}) {
        const auto list = at.schema->find(key);
        if (list != at.schema->end() && list->is_array()) listed = std::max(listed, list->size());
      }
    }
    listed = std::min(listed, static_cast<size_t>(facts.most_items));
    const ExpressionId rest = value(items(facts, static_cast<size_t>(kUnbounded)));
    if (listed == 0) return json_.list(rest, facts.least_items, facts.most_items);
    // State i: i items are there. The last state is behind the space before the bracket.
    ExpressionGraph graph;
    graph.ends.assign(listed + 2, false);
    const auto end = static_cast<uint32_t>(listed + 1);
    graph.ends[end] = true;
    for (uint32_t i = 0; i <= listed; ++i) {
      if (i < listed) {
        const ExpressionId item = value(items(facts, i));
        graph.edges.push_back({i, i + 1, i == 0 ? item : p_.sequence({json_.comma(), item})});
        if (i >= facts.least_items) graph.edges.push_back({i, end, i == 0 ? p_.empty() : json_.break_space()});
        continue;
      }
      const uint32_t needed = facts.least_items > i ? facts.least_items - i : 0;
      const uint32_t more = facts.most_items == kUnbounded ? kUnbounded : facts.most_items - i;
      const ExpressionId others = p_.repeat(p_.sequence({json_.comma(), rest}), needed, more);
      graph.edges.push_back({i, end, p_.sequence({others, json_.break_space()})});
    }
    return p_.sequence({p_.bytes("["), json_.break_space(), p_.graph(std::move(graph)), p_.bytes("]")});
  }

  ExpressionId object(const Facts& facts) {
    const Members members = read_members(facts_, facts, options_.closed_objects);
    std::vector<ExpressionId> named;
    for (const Members::Named& each : members.named) {
      named.push_back(p_.sequence({p_.bytes(Json(each.name).dump()), json_.colon(), value(each.value)}));
    }
    std::vector<ExpressionId> others;
    for (const Members::Others& each : members.others) {
      const ExpressionId name = json_.quoted(each.names.expression(json_.spelling()));
      others.push_back(p_.sequence({name, json_.colon(), value(each.value)}));
    }
    const ExpressionId inside = members_graph(facts, members, named, p_.choice(std::move(others)));
    return p_.sequence({p_.bytes("{"), json_.break_space(), inside, p_.bytes("}")});
  }

  // State (i, c): the first i named members are settled, and c members are there (as far as that matters).
  ExpressionId members_graph(const Facts& facts, const Members& members, const std::vector<ExpressionId>& named,
                             ExpressionId other) {
    const uint32_t least = facts.least_properties, most = facts.most_properties;
    const auto count = static_cast<uint32_t>(named.size());
    // Names that are not known beforehand could be the same one twice, so only one of them counts.
    if (least > count + (members.others.empty() ? 0 : 1)) {
      refuse_schema(facts.members.back(), "minProperties", "only supported up to the number of named properties + 1");
    }
    const uint32_t tracks = 1 + std::min(most == kUnbounded ? std::max(least, 1u) : most, count);
    if (uint64_t{count} * tracks > kMostTracks) {
      refuse_schema(facts.members.back(), "maxProperties", "not supported for so many properties");
    }
    ExpressionGraph graph;
    graph.ends.assign(size_t{count + 1} * tracks + 1, false);
    const auto end = static_cast<uint32_t>(graph.ends.size() - 1);
    graph.ends[end] = true;
    const auto state = [&](uint32_t i, uint32_t c) { return i * tracks + c; };
    for (uint32_t i = 0; i < count; ++i) {
      const ExpressionId next = p_.sequence({json_.comma(), named[i]});
      for (uint32_t c = 0; c < tracks; ++c) {
        if (!members.named[i].required) graph.edges.push_back({state(i, c), state(i + 1, c), p_.empty()});
        if (most != kUnbounded && c >= most) continue;
        graph.edges.push_back({state(i, c), state(i + 1, std::min(c + 1, tracks - 1)), c == 0 ? named[i] : next});
      }
    }
    for (uint32_t c = 0; c < tracks; ++c) {
      graph.edges.push_back({state(count, c), end, tail(facts, members, c, other)});
    }
    return p_.graph(std::move(graph));
  }

  // What may follow the named members when `there` members are there already, up to the closing bracket.
  ExpressionId tail(const Facts& facts, const Members& members, uint32_t there, ExpressionId other) {
    const uint32_t needed = facts.least_properties > there ? facts.least_properties - there : 0;
    const uint32_t left = facts.most_properties == kUnbounded ? kUnbounded : facts.most_properties - there;
    if (needed > 1 || (needed > 0 && (members.others.empty() || left == 0))) return p_.nothing();
    const ExpressionId close = json_.break_space();
    if (members.others.empty() || left == 0) return there == 0 ? p_.empty() : close;
    const ExpressionId next = p_.sequence({json_.comma(), other});
    if (there > 0) return p_.sequence({p_.repeat(next, needed, left), close});
    const ExpressionId some = p_.sequence({other, p_.repeat(next, 0, left == kUnbounded ? left : left - 1), close});
    return needed > 0 ? some : p_.optional(some);
  }

  FactsReader facts_;
  Productions& p_;
  JsonText json_;
  SchemaOptions options_;
  std::map<Key, RuleId> rules_;
  std::vector<Open> open_;
};

}  // namespace

ExpressionId schema_expression(const Json& schema, Productions& productions, const SchemaOptions& options) {
  return SchemaCompiler(schema, productions, options).compile({{&schema, "$"}});
}

ExpressionId schema_expression(const Json& root, const Conjunction& conjunction, Productions& productions,
                               const SchemaOptions& options) {
  return SchemaCompiler(root, productions, options).compile(conjunction);
}

ExpressionId json_object_expression(Productions& productions, const SchemaOptions& options) {
  return JsonText(productions, options.space).any_object();
}

}  // namespace braid
