// Aho and Corasick's automaton: a state is the longest end of the text that begins one of the strings.
// SPDX-License-Identifier: Apache-2.0
#include "text/grammar/free_text.h"

#include <algorithm>
#include <array>
#include <optional>

#include "base/error.h"

namespace braid {
namespace {

struct State {
  std::array<int32_t, 256> next;
  uint32_t fallback = 0;
  std::optional<size_t> complete;
  int mark_left = 0;  // bytes of a special token's mark that are still to come
};

// A state for each beginning of a string; the state at the end of each string is put into `ends`.
std::vector<State> beginnings(const std::vector<std::string>& strings, std::vector<uint32_t>& ends) {
  constexpr int kMarkBytes = 3;  // behind its first
  std::vector<State> states(1);
  states[0].next.fill(-1);
  for (size_t i = 0; i < strings.size(); ++i) {
    CHECK(!strings[i].empty(), "i={}", i);
    uint32_t at = 0;
    for (const char c : strings[i]) {
      const auto byte = static_cast<uint8_t>(c);
      if (states[at].next[byte] < 0) {
        states.emplace_back();
        states.back().next.fill(-1);
        const int left = states[at].mark_left;
        states.back().mark_left = left > 0 ? left - 1 : (byte == kSpecialByte ? kMarkBytes : 0);
        states[at].next[byte] = static_cast<int32_t>(states.size() - 1);
      }
      at = static_cast<uint32_t>(states[at].next[byte]);
    }
    if (!states[at].complete) states[at].complete = i;
    ends.push_back(at);
  }
  return states;
}

// Where a beginning does not go on, the longest one within it does. In order of depth, so that fallbacks are finished
// before they are used.
void join(std::vector<State>& states) {
  std::vector<uint32_t> order{0};
  for (size_t i = 0; i < order.size(); ++i) {
    State& state = states[order[i]];
    const bool root = order[i] == 0;
    if (!state.complete && !root) state.complete = states[state.fallback].complete;
    for (int byte = 0; byte < 256; ++byte) {
      const int32_t other = root ? 0 : states[state.fallback].next[static_cast<size_t>(byte)];
      int32_t& next = state.next[static_cast<size_t>(byte)];
      if (next >= 0) {
        states[static_cast<size_t>(next)].fallback = root ? 0 : static_cast<uint32_t>(std::max(other, 0));
        order.push_back(static_cast<uint32_t>(next));
      } else if (state.mark_left > 0 || (byte == kSpecialByte && other <= 0)) {
        next = -1;
      } else {
        next = other;
      }
    }
  }
}

}  // namespace

FreeText text_until(const std::vector<std::string>& strings, Productions& productions) {
  FreeText text;
  std::vector<State> states = beginnings(strings, text.complete);
  join(states);
  text.graph.ends.assign(states.size(), false);
  for (uint32_t at = 0; at < states.size(); ++at) {
    if (states[at].complete) continue;
    if (states[at].mark_left == 0) text.inside.push_back(at);
    for (int first = 0; first < 256;) {
      int last = first;
      const int32_t target = states[at].next[static_cast<size_t>(first)];
      while (last < 255 && states[at].next[static_cast<size_t>(last + 1)] == target) ++last;
      if (target >= 0) {
        // Where a string ends inside of another's beginning, it is the one that counts.
        const std::optional<size_t>& complete = states[static_cast<size_t>(target)].complete;
        const uint32_t to = complete ? text.complete[*complete] : static_cast<uint32_t>(target);
        text.graph.edges.push_back({at, to, productions.byte(static_cast<uint8_t>(first), static_cast<uint8_t>(last))});
      }
      first = last + 1;
    }
  }
  return text;
}

}  // namespace braid
