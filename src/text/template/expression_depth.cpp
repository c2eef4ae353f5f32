// SPDX-License-Identifier: Apache-2.0
#include "text/template/expression_depth.h"

#include <algorithm>

#include "text/template/lexer.h"

namespace braid::jinja {
namespace {

constexpr int kMaxDepth = 400;

int depth_of(const ExpressionPtr& expression) { return expression ? expression->depth : 0; }

template <typename Items>
int deepest(const Items& items) {
  int depth = 0;
  for (const auto& item : items) depth = std::max(depth, depth_of(item));
  return depth;
}

int depth_of(const CallArguments& arguments) {
  int depth = std::max({deepest(arguments.positional), depth_of(arguments.spread), depth_of(arguments.named_spread)});
  for (const auto& [name, value] : arguments.named) depth = std::max(depth, depth_of(value));
  return depth;
}

struct InnerDepth {
  int operator()(const Constant&) const { return 0; }
  int operator()(const Name&) const { return 0; }
  int operator()(const TupleDisplay& node) const { return deepest(node.items); }
  int operator()(const ListDisplay& node) const { return deepest(node.items); }
  int operator()(const DictDisplay& node) const {
    int depth = 0;
    for (const auto& [key, value] : node.entries) depth = std::max({depth, depth_of(key), depth_of(value)});
    return depth;
  }
  int operator()(const Unary& node) const { return depth_of(node.operand); }
  int operator()(const Binary& node) const { return std::max(depth_of(node.left), depth_of(node.right)); }
  int operator()(const Logical& node) const { return std::max(depth_of(node.left), depth_of(node.right)); }
  int operator()(const Comparison& node) const {
    int depth = depth_of(node.first);
    for (const auto& [how, value] : node.rest) depth = std::max(depth, depth_of(value));
    return depth;
  }
  int operator()(const Concatenation& node) const { return deepest(node.parts); }
  int operator()(const Conditional& node) const {
    return std::max({depth_of(node.test), depth_of(node.yes), depth_of(node.no)});
  }
  int operator()(const AttributeAccess& node) const { return depth_of(node.object); }
  int operator()(const ItemAccess& node) const { return std::max(depth_of(node.object), depth_of(node.key)); }
  int operator()(const SliceAccess& node) const {
    return std::max({depth_of(node.object), depth_of(node.start), depth_of(node.stop), depth_of(node.step)});
  }
  int operator()(const Call& node) const { return std::max(depth_of(node.callee), depth_of(node.arguments)); }
  int operator()(const FilterUse& node) const { return std::max(depth_of(node.input), depth_of(node.arguments)); }
  int operator()(const TestUse& node) const { return std::max(depth_of(node.input), depth_of(node.arguments)); }
};

}  // namespace

int checked_depth(const ExpressionNode& node, int line) {
  const int depth = std::visit(InnerDepth{}, node) + 1;
  if (depth > kMaxDepth) throw SyntaxFault{line, fmt::format("an expression is longer than {} operations", kMaxDepth)};
  return depth;
}

}  // namespace braid::jinja
