// CharacterAutomaton: a deterministic automaton over characters, for sets of texts that are cut and subtracted.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "text/grammar/code_points.h"
#include "text/grammar/regex.h"
#include "text/grammar/spelling.h"

namespace braid {

// State 0 is the start. What would need more than kMostStates states is an Input error.
class CharacterAutomaton {
 public:
  static constexpr size_t kMostStates = 1u << 14;

  static CharacterAutomaton of(const Regex& regex);
  static CharacterAutomaton of_texts(std::span<const std::string> texts);
  // All texts of `least` to `most` characters; most may be kUnbounded.
  static CharacterAutomaton of_length(uint32_t least, uint32_t most);

  CharacterAutomaton operator&(const CharacterAutomaton& other) const { return product(other, false); }
  CharacterAutomaton operator-(const CharacterAutomaton& other) const { return product(other, true); }

  bool matches(std::string_view text) const;
  bool empty() const;  // it matches nothing
  ExpressionId expression(Spelling& spelling) const;

 private:
  static constexpr uint32_t kDead = 0xFFFFFFFFu;
  struct Edge {
    CodePointRange range;
    uint32_t target;
  };
  struct State {
    std::vector<Edge> edges;  // ascending
    bool ends = false;
  };
  friend class SubsetConstruction;

  uint32_t add_state(bool ends);
  uint32_t next(uint32_t state, uint32_t code) const;
  CharacterAutomaton product(const CharacterAutomaton& other, bool subtract) const;

  std::vector<State> states_;
};

}  // namespace braid
