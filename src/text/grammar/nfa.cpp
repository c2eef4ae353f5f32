// Thompson's construction, with shared tails for the continuation bytes of characters.
// SPDX-License-Identifier: Apache-2.0
#include "text/grammar/nfa.h"

#include <algorithm>
#include <unordered_map>

#include "base/error.h"

namespace braid {
namespace {

// A repetition of up to so many states is spelt out. Above it counting pays: one table of masks serves all counts.
constexpr uint64_t kSpeltOut = 64;
constexpr uint64_t kMostStates = 1u << 20;

class NfaBuilder {
 public:
  NfaBuilder(const Productions& productions, LoopRules& loops) : productions_(productions), loops_(loops) {}

  Nfa build(ExpressionId expression) {
    state();
    state();
    add(expression, 0, 1);
    return std::move(nfa_);
  }

 private:
  uint32_t state() {
    if (nfa_.first_link.size() >= kMostStates) fail("the grammar is too large: a rule of {} states", kMostStates);
    nfa_.first_link.push_back(Nfa::kNone);
    return static_cast<uint32_t>(nfa_.first_link.size() - 1);
  }

  void link(uint32_t from, Nfa::Link link) {
    link.next = nfa_.first_link[from];
    nfa_.first_link[from] = static_cast<uint32_t>(nfa_.links.size());
    nfa_.links.push_back(link);
  }
  void skip(uint32_t from, uint32_t to) { link(from, {.target = to, .via = Nfa::Via::Nothing}); }
  void step(uint32_t from, uint32_t to, ByteRange bytes) {
    link(from, {.target = to, .via = Nfa::Via::Bytes, .bytes = bytes});
  }

  void add(ExpressionId id, uint32_t from, uint32_t to) {
    const GrammarExpression& expression = productions_.at(id);
    switch (expression.kind) {
      case GrammarExpression::Kind::Bytes:
        add_bytes(expression.bytes, from, to);
        break;
      case GrammarExpression::Kind::Range:
        step(from, to, expression.range);
        break;
      case GrammarExpression::Kind::Characters:
        add_characters(expression.characters, from, to);
        break;
      case GrammarExpression::Kind::Sequence:
        for (size_t i = 0; i < expression.parts.size(); ++i) {
          const uint32_t after = i + 1 == expression.parts.size() ? to : state();
          add(expression.parts[i], from, after);
          from = after;
        }
        break;
      case GrammarExpression::Kind::Choice:
        for (const ExpressionId part : expression.parts) add(part, from, to);
        break;
      case GrammarExpression::Kind::Repeat:
        add_repeat(expression, from, to);
        break;
      case GrammarExpression::Kind::Call:
        link(from, {.target = to, .rule = expression.rule, .via = Nfa::Via::Call});
        break;
      case GrammarExpression::Kind::Graph:
        add_graph(productions_.graph_at(expression.graph), from, to);
        break;
    }
  }

  void add_bytes(const std::string& text, uint32_t from, uint32_t to) {
    if (text.empty()) return skip(from, to);
    for (size_t i = 0; i < text.size(); ++i) {
      const uint32_t after = i + 1 == text.size() ? to : state();
      const auto byte = static_cast<uint8_t>(text[i]);
      step(from, after, {byte, byte});
      from = after;
    }
  }

  void add_characters(const CodePointSet& set, uint32_t from, uint32_t to) {
    std::map<std::vector<ByteRange>, uint32_t> tails;  // the state from which these bytes are left
    for (const Utf8Path& path : utf8_paths(set)) {
      uint32_t after = to;
      std::vector<ByteRange> left;
      for (int i = path.length - 1; i > 0; --i) {
        left.insert(left.begin(), path.bytes[i]);
        const auto [tail, is_new] = tails.try_emplace(left, 0);
        if (is_new) {
          tail->second = state();
          step(tail->second, after, path.bytes[i]);
        }
        after = tail->second;
      }
      step(from, after, path.bytes[0]);
    }
  }

  void add_repeat(const GrammarExpression& repeat, uint32_t from, uint32_t to) {
    const ExpressionId part = repeat.parts.front();
    const bool endless = repeat.most == kUnbounded;
    const uint64_t copies = endless ? repeat.least + uint64_t{1} : repeat.most;
    const bool single = endless ? repeat.least <= 1 : repeat.most == 1;
    if (!single && copies * size(part) > kSpeltOut) {
      const RuleId rule = loops_.rule({part, repeat.least, repeat.most});
      return link(from, {.target = to, .rule = rule, .via = Nfa::Via::Call});
    }
    for (uint32_t i = 0; i < repeat.least; ++i) {
      const uint32_t after = state();
      add(part, from, after);
      from = after;
    }
    if (endless) {
      const uint32_t again = state();
      skip(from, again);
      add(part, again, again);
      return skip(again, to);
    }
    for (uint32_t i = repeat.least; i < repeat.most; ++i) {
      const uint32_t after = state();
      skip(from, to);
      add(part, from, after);
      from = after;
    }
    skip(from, to);
  }

  void add_graph(const ExpressionGraph& graph, uint32_t from, uint32_t to) {
    std::vector<uint32_t> states(graph.ends.size());
    for (uint32_t& each : states) each = state();
    if (!states.empty()) skip(from, states.front());
    for (const ExpressionGraph::Edge& edge : graph.edges) add(edge.expression, states[edge.from], states[edge.to]);
    for (size_t i = 0; i < states.size(); ++i) {
      if (graph.ends[i]) skip(states[i], to);
    }
  }

  // States that an expression takes, at most kSpeltOut + 1.
  uint64_t size(ExpressionId id) {
    if (const auto known = sizes_.find(id); known != sizes_.end()) return known->second;
    const GrammarExpression& expression = productions_.at(id);
    uint64_t total = 1;
    if (expression.kind == GrammarExpression::Kind::Bytes) total = expression.bytes.size();
    if (expression.kind == GrammarExpression::Kind::Characters) {
      total = expression.characters.ranges().empty() || expression.characters.ranges().back().last < 0x80 ? 1 : 4;
    }
    if (expression.kind == GrammarExpression::Kind::Graph) total = kSpeltOut + 1;
    if (expression.kind == GrammarExpression::Kind::Call) total = 4;
    for (const ExpressionId part : expression.parts) {
      total += size(part);
      if (total > kSpeltOut) break;
    }
    if (expression.kind == GrammarExpression::Kind::Repeat && expression.most != kUnbounded) {
      total = std::min(total * expression.most, kSpeltOut + 1) > kSpeltOut ? 4 : total * expression.most;
    }
    return sizes_[id] = std::min(total, kSpeltOut + 1);
  }

  const Productions& productions_;
  LoopRules& loops_;
  Nfa nfa_;
  std::unordered_map<ExpressionId, uint64_t> sizes_;
};

}  // namespace

RuleId LoopRules::rule(LoopRule loop) {
  const auto [known, is_new] = known_.try_emplace({loop.body, loop.least, loop.most}, 0);
  if (is_new) {
    known->second = first_rule_ + static_cast<uint32_t>(loops_.size());
    loops_.push_back(loop);
  }
  return known->second;
}

Nfa make_nfa(const Productions& productions, ExpressionId expression, LoopRules& loops) {
  return NfaBuilder(productions, loops).build(expression);
}

}  // namespace braid
