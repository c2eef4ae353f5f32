// Productions: the one form that every kind of grammar is brought to: named rules of expressions over bytes.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "text/grammar/code_points.h"

namespace braid {

using ExpressionId = uint32_t;
using RuleId = uint32_t;
inline constexpr uint32_t kUnbounded = 0xFFFFFFFFu;

// No byte of a text is this one, so a special token is written as a sequence that starts with it (token_trie.h).
inline constexpr uint8_t kSpecialByte = 0xFF;

struct GrammarExpression {
  enum class Kind : uint8_t { Bytes, Range, Characters, Sequence, Choice, Repeat, Call, Graph };
  Kind kind = Kind::Bytes;
  std::string bytes;                // Bytes: this text (the empty text too)
  ByteRange range;                  // Range: one byte
  CodePointSet characters;          // Characters: one character, in UTF-8
  std::vector<ExpressionId> parts;  // Sequence, Choice (none: nothing matches), Repeat (one)
  uint32_t least = 0, most = 0;     // Repeat; most may be kUnbounded
  RuleId rule = 0;                  // Call
  uint32_t graph = 0;               // Graph: an index
  uint32_t depth = 0;               // of nested expressions
};

// Expressions as edges of an automaton, for what has more order than brackets show. Begins in state 0.
struct ExpressionGraph {
  struct Edge {
    uint32_t from = 0, to = 0;
    ExpressionId expression = 0;
  };
  std::vector<Edge> edges;
  std::vector<bool> ends;  // by state: the graph may end there
};

// Grows by what front ends ask for, up to kMaxSize; beyond it every call is an Input error, so that a short text cannot
// stand for an endless grammar, as does nesting deeper than kMaxDepth. Rule 0 is where a text begins. Not thread-safe.
class Productions {
 public:
  static constexpr size_t kMaxSize = 4u << 20;
  static constexpr uint32_t kMaxDepth = 1000;

  ExpressionId empty() { return bytes(""); }
  ExpressionId nothing() { return choice({}); }
  ExpressionId bytes(std::string_view text);
  ExpressionId byte(uint8_t first, uint8_t last);
  ExpressionId characters(const CodePointSet& set);
  ExpressionId sequence(std::vector<ExpressionId> parts);
  ExpressionId choice(std::vector<ExpressionId> parts);
  ExpressionId repeat(ExpressionId part, uint32_t least, uint32_t most = kUnbounded);
  ExpressionId optional(ExpressionId part) { return choice({empty(), part}); }
  ExpressionId call(RuleId rule);
  ExpressionId graph(ExpressionGraph graph);

  // A rule may be called before it is defined. The name is for messages.
  RuleId declare(std::string name);
  void define(RuleId rule, ExpressionId expression);
  RuleId rule(std::string name, ExpressionId expression);

  const GrammarExpression& at(ExpressionId id) const { return expressions_[id]; }
  const ExpressionGraph& graph_at(uint32_t index) const { return graphs_[index]; }
  size_t rules() const { return rules_.size(); }
  const std::string& name(RuleId rule) const { return rules_[rule].name; }
  // CHECKs that the rule is defined.
  ExpressionId body(RuleId rule) const;

 private:
  struct Rule {
    std::string name;
    ExpressionId body = 0;
    bool defined = false;
  };
  ExpressionId add(GrammarExpression expression, size_t size);

  std::vector<GrammarExpression> expressions_;
  std::vector<ExpressionGraph> graphs_;
  std::vector<Rule> rules_;
  std::map<std::string, ExpressionId, std::less<>> texts_;
  size_t size_ = 0;
};

}  // namespace braid
