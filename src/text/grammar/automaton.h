// Automaton: productions as one deterministic automaton over bytes for each rule, with calls between the rules.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "text/grammar/productions.h"

namespace braid {

class AutomatonBuilder;

// Where a text may be: a state, and for the state of a counted loop how often its body has been passed.
struct Place {
  uint32_t state = 0, count = 0;
  bool operator==(const Place&) const = default;
};

// Deterministic but for calls: a state has at most one target for a byte, beside any number of rules that may be called
// from it. From every state the end of its rule can be reached. Immutable.
class Automaton {
 public:
  static constexpr uint32_t kDead = 0xFFFFFFFFu;

  struct Edge {
    uint32_t target;
    uint8_t first, last;
  };
  struct Call {
    uint32_t rule, back;  // the caller goes on in state `back`
  };
  // Passes the body of rule `body` between `least` and `most` (or kUnbounded) times.
  struct Loop {
    uint32_t body = 0, least = 0, most = 0;
    bool nullable_body = false;   // then least is 0, and a pass over nothing does not count
    bool character_body = false;  // the body calls nothing, and no text of it is the start of another
  };

  // Throws an Input error where no text is matched at all, or where the automaton would be too large.
  explicit Automaton(const Productions& productions);

  uint32_t start(uint32_t rule = 0) const { return starts_[rule]; }
  size_t rules() const { return starts_.size(); }
  size_t states() const { return states_.size() - 1; }
  size_t bytes() const;

  // The state after a byte; kDead if there is none.
  uint32_t next(uint32_t state, uint8_t byte) const {
    const State& from = states_[state];
    if (from.row >= 0) return rows_[static_cast<size_t>(from.row) * 256 + byte];
    for (uint32_t i = from.edges; i < states_[state + 1].edges; ++i) {
      if (byte >= edges_[i].first && byte <= edges_[i].last) return edges_[i].target;
    }
    return kDead;
  }
  std::span<const Edge> edges(uint32_t state) const {
    return std::span(edges_).subspan(states_[state].edges, states_[state + 1].edges - states_[state].edges);
  }
  std::span<const Call> calls(uint32_t state) const {
    return std::span(calls_).subspan(states_[state].calls, states_[state + 1].calls - states_[state].calls);
  }
  bool ends(uint32_t state) const { return states_[state].ends; }
  // Nothing but bytes leads on from here.
  bool plain(uint32_t state) const { return states_[state].plain; }
  const Loop* loop(uint32_t state) const { return states_[state].loop < 0 ? nullptr : &loops_[states_[state].loop]; }
  uint32_t rule_of(uint32_t state) const { return states_[state].rule; }
  // How many different bytes lead on.
  int width(uint32_t state) const;

 private:
  friend class AutomatonBuilder;
  struct State {
    uint32_t edges = 0, calls = 0;  // first of each; they go up to the next state's
    uint32_t rule = 0;
    int32_t row = -1, loop = -1;
    bool ends = false, plain = false;
  };
  std::vector<State> states_;  // and one more that only closes the last
  std::vector<Edge> edges_;
  std::vector<Call> calls_;
  std::vector<Loop> loops_;
  std::vector<uint32_t> starts_, rows_;
};

}  // namespace braid
