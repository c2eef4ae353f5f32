// The members are those of the schema's objects; only their spelling differs.
// SPDX-License-Identifier: Apache-2.0
#include "text/grammar/schema/xml_parameters.h"

#include <algorithm>

#include "base/error.h"
#include "text/grammar/free_text.h"
#include "text/grammar/schema/facts.h"
#include "text/grammar/schema/members.h"

namespace braid {
namespace {

constexpr const char* kClose = "\n</parameter>";

// The value with what closes it.
ExpressionId parameter(const Json& root, const Conjunction& value, Productions& p, const SchemaOptions& options) {
  const FactsReader reader(root);
  const Facts facts = reader.read(value);
  if (facts.impossible) return p.nothing();
  const bool only_strings = facts.values
                                ? std::ranges::all_of(*facts.values, [](const Json& each) { return each.is_string(); })
                                : facts.types == kString;
  const bool is_text = only_strings && !facts.any_of && !facts.one_of;
  if (!is_text) return p.sequence({schema_expression(root, value, p, options), p.bytes(kClose)});
  if (facts.values) {
    std::vector<ExpressionId> ways;
    for (const Json& each : *facts.values) {
      if (FactsReader::allows(facts, each)) ways.push_back(p.bytes(each.get<std::string>() + kClose));
    }
    return p.choice(std::move(ways));
  }
  if (const std::optional<CharacterAutomaton> strings = FactsReader::strings(facts)) {
    Spelling spelling(p, SpelledAs::Text);
    return p.sequence({strings->expression(spelling), p.bytes(kClose)});
  }
  FreeText text = text_until({kClose}, p);
  text.graph.ends[text.complete.front()] = true;
  return p.graph(std::move(text.graph));
}

}  // namespace

ExpressionId xml_parameters_expression(const Json& schema, Productions& productions, const SchemaOptions& options) {
  Productions& p = productions;
  const FactsReader reader(schema);
  const Facts facts = reader.read({{&schema, "$"}});
  if (facts.impossible || (facts.types & kObject) == 0) fail("$: the parameters of a tool are an object");
  const Members members = read_members(reader, facts, options.closed_objects);
  std::vector<ExpressionId> parts;
  for (const Members::Named& each : members.named) {
    const ExpressionId one = p.sequence(
        {p.bytes("<parameter=" + each.name + ">\n"), parameter(schema, each.value, p, options), p.bytes("\n")});
    parts.push_back(each.required ? one : p.optional(one));
  }
  return p.sequence(std::move(parts));
}

}  // namespace braid
