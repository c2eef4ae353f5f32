// SPDX-License-Identifier: Apache-2.0
#include "text/dialects/call_grammar.h"

#include <algorithm>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "text/dialects/parameter_types.h"

namespace braid {
namespace {

constexpr std::string_view kCall = "<tool_call>", kCallEnd = "</tool_call>";

const Json& function_of(const Json& tool) { return tool.contains("function") ? tool.at("function") : tool; }

// How much of `mark` the text ends with after `c`, where it ended with `matched` characters of it before.
size_t next_match(std::string_view mark, size_t matched, char c) {
  const std::string text = std::string(mark.substr(0, matched)) + c;
  for (size_t length = std::min(text.size(), mark.size()); length > 0; --length)
    if (text.substr(text.size() - length) == mark.substr(0, length)) return length;
  return 0;
}

class Builder {
 public:
  Builder(const TokenTrie* trie, const SchemaReader& schema, Productions& productions)
      : trie_(trie), schema_(schema), productions_(productions) {}

  ExpressionId literal(const std::string& text) {
    return productions_.bytes(trie_ != nullptr ? trie_->mark_specials(text) : text);
  }

  // From behind the opening mark to the end of the closing one.
  ExpressionId call(ToolForm form, const Json& function) {
    const std::string name = function.at("name").get<std::string>();
    const Json any = {{"type", "object"}};
    const auto found = function.find("parameters");
    const Json& parameters = found != function.end() && found->is_object() ? *found : any;
    if (form == ToolForm::Json)
      return productions_.sequence({literal("\n{\"name\": " + Json(name).dump() + ", \"arguments\": "),
                                    schema_(parameters, productions_), literal("}\n" + std::string(kCallEnd))});
    return productions_.sequence({literal("\n<function=" + name + ">\n"), xml_parameters(parameters),
                                  literal("</function>\n" + std::string(kCallEnd))});
  }

 private:
  ExpressionId xml_parameters(const Json& schema) {
    std::vector<ExpressionId> parts;
    const auto properties = schema.find("properties");
    if (properties == schema.end() || !properties->is_object()) return productions_.empty();
    const Json required = schema.value("required", Json::array());
    for (const auto& [key, value] : properties->items()) {
      const ExpressionId part = productions_.sequence(
          {literal("<parameter=" + key + ">\n"), xml_value(value, schema), literal("\n</parameter>\n")});
      const bool needed = std::find(required.begin(), required.end(), Json(key)) != required.end();
      parts.push_back(needed ? part : productions_.optional(part));
    }
    return productions_.sequence(std::move(parts));
  }

  ExpressionId xml_value(const Json& schema, const Json& root) {
    if (!types_of_schema(schema, root).only_string()) return schema_(with_definitions(schema, root), productions_);
    const auto values = schema.find("enum");
    if (values == schema.end() || !values->is_array()) return text_without("</parameter>", productions_);
    std::vector<ExpressionId> choices;
    for (const Json& value : *values)
      if (value.is_string()) choices.push_back(productions_.bytes(value.get_ref<const std::string&>()));
    return productions_.choice(std::move(choices));
  }

  // References of a parameter are resolved in the schema of all parameters.
  static Json with_definitions(const Json& schema, const Json& root) {
    Json out = schema;
    if (!out.is_object()) return out;
    for (const char* word : {"$defs", "definitions"})
      if (root.contains(word) && !out.contains(word)) out[word] = root.at(word);
    return out;
  }

  const TokenTrie* trie_;
  const SchemaReader& schema_;
  Productions& productions_;
};

}  // namespace

ExpressionId text_without(std::string_view mark, Productions& productions) {
  ExpressionGraph graph;
  graph.ends.assign(mark.size(), true);
  std::vector<CodePointRange> of_mark;
  for (const char c : mark) of_mark.push_back({static_cast<uint32_t>(c), static_cast<uint32_t>(c)});
  const CodePointSet known(of_mark);
  const ExpressionId others = productions.characters(CodePointSet::all() - known);
  for (uint32_t state = 0; state < mark.size(); ++state) {
    graph.edges.push_back({state, 0, others});
    for (const CodePointRange& range : known.ranges()) {
      for (uint32_t code = range.first; code <= range.last; ++code) {
        const auto target = static_cast<uint32_t>(next_match(mark, state, static_cast<char>(code)));
        if (target < mark.size())
          graph.edges.push_back({state, target, productions.characters(CodePointSet::of(code, code))});
      }
    }
  }
  return productions.graph(std::move(graph));
}

ExpressionId call_expression(const CallRule& rule, const SchemaReader& schema, Productions& productions) {
  if (rule.form == ToolForm::None) fail("the model's template has no form for tool calls");
  Builder builder(rule.trie, schema, productions);
  std::vector<ExpressionId> calls;
  for (const Json& tool : rule.tools) {
    const Json& function = function_of(tool);
    if (rule.name.empty() || function.at("name") == rule.name) calls.push_back(builder.call(rule.form, function));
  }
  if (calls.empty()) fail("there is no tool '{}'", rule.name);
  const ExpressionId call =
      productions.sequence({builder.literal(std::string(kCall)), productions.choice(std::move(calls))});
  const ExpressionId more = productions.repeat(productions.sequence({productions.bytes("\n"), call}), 0);
  const ExpressionId all = rule.parallel ? productions.sequence({call, more}) : call;
  if (rule.required) return all;
  return productions.sequence({text_without(kCall, productions), productions.optional(all)});
}

}  // namespace braid
