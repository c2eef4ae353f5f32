// Building of expressions, with the simplifications that keep them small.
// SPDX-License-Identifier: Apache-2.0
#include "text/grammar/productions.h"

#include <algorithm>

#include "base/error.h"

namespace braid {

ExpressionId Productions::add(GrammarExpression expression, size_t size) {
  size_ += size + 1;
  if (size_ > kMaxSize) fail("the grammar is too large: more than {} symbols", kMaxSize);
  for (const ExpressionId part : expression.parts) {
    expression.depth = std::max(expression.depth, expressions_[part].depth + 1);
  }
  if (expression.kind == GrammarExpression::Kind::Graph) {
    for (const ExpressionGraph::Edge& edge : graphs_[expression.graph].edges) {
      expression.depth = std::max(expression.depth, expressions_[edge.expression].depth + 1);
    }
  }
  if (expression.depth > kMaxDepth) fail("the grammar is nested deeper than {} levels", kMaxDepth);
  expressions_.push_back(std::move(expression));
  return static_cast<ExpressionId>(expressions_.size() - 1);
}

ExpressionId Productions::bytes(std::string_view text) {
  if (const auto found = texts_.find(text); found != texts_.end()) return found->second;
  const ExpressionId id = add({.kind = GrammarExpression::Kind::Bytes, .bytes = std::string(text)}, text.size());
  texts_.emplace(std::string(text), id);
  return id;
}

ExpressionId Productions::byte(uint8_t first, uint8_t last) {
  return add({.kind = GrammarExpression::Kind::Range, .range = {first, last}}, 1);
}

ExpressionId Productions::characters(const CodePointSet& set) {
  return add({.kind = GrammarExpression::Kind::Characters, .characters = set}, set.ranges().size());
}

ExpressionId Productions::sequence(std::vector<ExpressionId> parts) {
  std::erase(parts, empty());
  if (parts.empty()) return empty();
  if (parts.size() == 1) return parts.front();
  const size_t size = parts.size();
  return add({.kind = GrammarExpression::Kind::Sequence, .parts = std::move(parts)}, size);
}

ExpressionId Productions::choice(std::vector<ExpressionId> parts) {
  if (parts.size() == 1) return parts.front();
  const size_t size = parts.size();
  return add({.kind = GrammarExpression::Kind::Choice, .parts = std::move(parts)}, size);
}

ExpressionId Productions::repeat(ExpressionId part, uint32_t least, uint32_t most) {
  CHECK(least <= most, "least={} most={}", least, most);
  if (most == 0) return empty();
  if (least == 1 && most == 1) return part;
  return add({.kind = GrammarExpression::Kind::Repeat, .parts = {part}, .least = least, .most = most}, 1);
}

ExpressionId Productions::call(RuleId rule) {
  CHECK(rule < rules_.size(), "rule={}", rule);
  return add({.kind = GrammarExpression::Kind::Call, .rule = rule}, 1);
}

ExpressionId Productions::graph(ExpressionGraph graph) {
  for (const ExpressionGraph::Edge& edge : graph.edges) {
    CHECK(edge.from < graph.ends.size() && edge.to < graph.ends.size(), "from={} to={}", edge.from, edge.to);
  }
  const size_t size = graph.edges.size() + graph.ends.size();
  graphs_.push_back(std::move(graph));
  return add({.kind = GrammarExpression::Kind::Graph, .graph = static_cast<uint32_t>(graphs_.size() - 1)}, size);
}

RuleId Productions::declare(std::string name) {
  size_ += 1;
  rules_.push_back({std::move(name)});
  return static_cast<RuleId>(rules_.size() - 1);
}

void Productions::define(RuleId rule, ExpressionId expression) {
  CHECK(rule < rules_.size() && !rules_[rule].defined, "rule={}", rule);
  rules_[rule].body = expression;
  rules_[rule].defined = true;
}

RuleId Productions::rule(std::string name, ExpressionId expression) {
  const RuleId id = declare(std::move(name));
  define(id, expression);
  return id;
}

ExpressionId Productions::body(RuleId rule) const {
  CHECK(rules_[rule].defined, "rule={}", rules_[rule].name);
  return rules_[rule].body;
}

}  // namespace braid
