// Nfa: the automaton of one rule before it is made deterministic: states with links for bytes, calls and nothing.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <tuple>
#include <vector>

#include "text/grammar/productions.h"

namespace braid {

// A repetition that gets a rule of its own, which counts. Rules of loops are numbered after those of the productions.
struct LoopRule {
  ExpressionId body = 0;
  uint32_t least = 0, most = 0;
};

// Repetitions that a rule's automaton does not spell out, shared by all rules of a grammar.
class LoopRules {
 public:
  explicit LoopRules(uint32_t first_rule) : first_rule_(first_rule) {}
  RuleId rule(LoopRule loop);
  uint32_t first_rule() const { return first_rule_; }
  const std::vector<LoopRule>& all() const { return loops_; }

 private:
  uint32_t first_rule_;
  std::vector<LoopRule> loops_;
  std::map<std::tuple<ExpressionId, uint32_t, uint32_t>, RuleId> known_;
};

struct Nfa {
  enum class Via : uint8_t { Nothing, Bytes, Call };
  struct Link {
    uint32_t next;  // link of the same state, or kNone
    uint32_t target;
    RuleId rule;
    Via via;
    ByteRange bytes;
  };
  static constexpr uint32_t kNone = 0xFFFFFFFFu;

  std::vector<uint32_t> first_link;  // by state; state 0 is the start, state 1 the end
  std::vector<Link> links;
};

// Repetitions of small parts are spelt out, others become loop rules: the size stays linear in the expression's.
Nfa make_nfa(const Productions& productions, ExpressionId expression, LoopRules& loops);

}  // namespace braid
