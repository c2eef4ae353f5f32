// Subset construction over ranges of characters, and products of two automata.
// SPDX-License-Identifier: Apache-2.0
#include "text/grammar/character_automaton.h"

#include <algorithm>
#include <map>
#include <utility>

#include "base/error.h"
#include "base/utf8.h"

namespace braid {

// The states of a regular expression's automaton with empty links, and the sets of them.
class SubsetConstruction {
 public:
  CharacterAutomaton run(const Regex& regex) {
    const uint32_t start = state(), end = state();
    add(regex, start, end);
    CharacterAutomaton out;
    std::map<std::vector<uint32_t>, uint32_t> known;
    std::vector<std::vector<uint32_t>> sets;
    const auto state_of = [&](std::vector<uint32_t> set) {
      close(set);
      const auto [entry, is_new] = known.try_emplace(set, 0);
      if (is_new) {
        entry->second = out.add_state(std::binary_search(set.begin(), set.end(), end));
        sets.push_back(std::move(set));
      }
      return entry->second;
    };
    state_of({start});
    for (uint32_t at = 0; at < sets.size(); ++at) {
      for (auto& [range, targets] : cut(sets[at])) {
        const uint32_t target = state_of(std::move(targets));
        out.states_[at].edges.push_back({range, target});
      }
    }
    return out;
  }

 private:
  struct Link {
    CodePointSet set;
    uint32_t target;
  };
  struct Node {
    std::vector<uint32_t> skips;
    std::vector<Link> links;
  };

  uint32_t state() {
    if (nodes_.size() >= kMostNodes) fail("the pattern is too large");
    nodes_.emplace_back();
    return static_cast<uint32_t>(nodes_.size() - 1);
  }

  void add(const Regex& regex, uint32_t from, uint32_t to) {
    switch (regex.kind) {
      case Regex::Kind::Characters:
        nodes_[from].links.push_back({regex.characters, to});
        return;
      case Regex::Kind::Choice:
        for (const Regex& part : regex.parts) add(part, from, to);
        return;
      case Regex::Kind::Repeat:
        return add_repeat(regex, from, to);
      default:
        for (const Regex& part : regex.parts) {
          const uint32_t after = state();
          add(part, from, after);
          from = after;
        }
        nodes_[from].skips.push_back(to);
    }
  }

  void add_repeat(const Regex& regex, uint32_t from, uint32_t to) {
    for (uint32_t i = 0; i < regex.least; ++i) {
      const uint32_t after = state();
      add(regex.parts.front(), from, after);
      from = after;
    }
    if (regex.most == kUnbounded) {
      const uint32_t again = state();
      nodes_[from].skips.push_back(again);
      add(regex.parts.front(), again, again);
      nodes_[again].skips.push_back(to);
      return;
    }
    for (uint32_t i = regex.least; i < regex.most; ++i) {
      const uint32_t after = state();
      nodes_[from].skips.push_back(to);
      add(regex.parts.front(), from, after);
      from = after;
    }
    nodes_[from].skips.push_back(to);
  }

  void close(std::vector<uint32_t>& set) {
    std::vector<bool> seen(nodes_.size(), false);
    for (size_t at = 0; at < set.size(); ++at) {
      if (seen[set[at]]) {
        set.erase(set.begin() + static_cast<std::ptrdiff_t>(at--));
        continue;
      }
      seen[set[at]] = true;
      for (const uint32_t target : nodes_[set[at]].skips) {
        if (!seen[target]) set.push_back(target);
      }
    }
    count(nodes_.size() / 64 + set.size());
    std::sort(set.begin(), set.end());
  }

  // Ranges of characters that lead to the same states from everywhere in a set.
  std::vector<std::pair<CodePointRange, std::vector<uint32_t>>> cut(const std::vector<uint32_t>& set) {
    std::map<uint32_t, std::vector<std::pair<uint32_t, bool>>> borders;  // code: targets that begin or end there
    for (const uint32_t member : set) {
      for (const Link& link : nodes_[member].links) {
        for (const CodePointRange& range : link.set.ranges()) {
          borders[range.first].emplace_back(link.target, true);
          borders[range.last + 1].emplace_back(link.target, false);
        }
      }
    }
    std::vector<std::pair<CodePointRange, std::vector<uint32_t>>> pieces;
    std::map<uint32_t, int> open;
    for (auto border = borders.begin(); border != borders.end(); ++border) {
      for (const auto& [target, begins] : border->second) {
        int& depth = open[target];
        depth += begins ? 1 : -1;
        if (depth == 0) open.erase(target);
      }
      if (open.empty()) continue;
      std::vector<uint32_t> targets;
      for (const auto& [target, depth] : open) targets.push_back(target);
      count(targets.size());
      pieces.emplace_back(CodePointRange{border->first, std::next(border)->first - 1}, std::move(targets));
    }
    return pieces;
  }

  void count(size_t visits) {
    visits_ += visits;
    if (visits_ > kMostVisits) fail("the pattern is too complex");
  }

  static constexpr size_t kMostNodes = 1u << 16, kMostVisits = 16u << 20;
  std::vector<Node> nodes_;
  size_t visits_ = 0;
};

CharacterAutomaton CharacterAutomaton::of(const Regex& regex) { return SubsetConstruction().run(regex); }

CharacterAutomaton CharacterAutomaton::of_texts(std::span<const std::string> texts) {
  CharacterAutomaton out;
  out.add_state(false);
  std::map<std::pair<uint32_t, uint32_t>, uint32_t> children;
  for (const std::string& text : texts) {
    uint32_t state = 0;
    for (size_t at = 0; at < text.size();) {
      const Utf8Char character = decode_utf8(text, at);
      at += character.bytes;
      const auto [child, is_new] = children.try_emplace({state, character.code}, 0);
      if (is_new) child->second = out.add_state(false);
      state = child->second;
    }
    out.states_[state].ends = true;
  }
  for (const auto& [from, target] : children) {
    out.states_[from.first].edges.push_back({{from.second, from.second}, target});
  }
  return out;
}

CharacterAutomaton CharacterAutomaton::of_length(uint32_t least, uint32_t most) {
  CharacterAutomaton out;
  const uint32_t last = most == kUnbounded ? least : most;
  for (uint32_t length = 0; length <= last; ++length) out.add_state(length >= least);
  for (uint32_t length = 0; length <= last; ++length) {
    if (length == last && most != kUnbounded) break;
    for (const CodePointRange& range : CodePointSet::all().ranges()) {
      out.states_[length].edges.push_back({range, std::min(length + 1, last)});
    }
  }
  return out;
}

uint32_t CharacterAutomaton::add_state(bool ends) {
  if (states_.size() >= kMostStates) fail("a pattern with these bounds needs more than {} states", kMostStates);
  states_.push_back({.ends = ends});
  return static_cast<uint32_t>(states_.size() - 1);
}

uint32_t CharacterAutomaton::next(uint32_t state, uint32_t code) const {
  for (const Edge& edge : states_[state].edges) {
    if (code >= edge.range.first && code <= edge.range.last) return edge.target;
  }
  return kDead;
}

CharacterAutomaton CharacterAutomaton::product(const CharacterAutomaton& other, bool subtract) const {
  CharacterAutomaton out;
  std::map<std::pair<uint32_t, uint32_t>, uint32_t> known;
  std::vector<std::pair<uint32_t, uint32_t>> pairs;
  const auto state_of = [&](uint32_t mine, uint32_t theirs) {
    const auto [entry, is_new] = known.try_emplace({mine, theirs}, 0);
    if (is_new) {
      const bool in_other = theirs != kDead && other.states_[theirs].ends;
      entry->second = out.add_state(states_[mine].ends && in_other != subtract);
      pairs.emplace_back(mine, theirs);
    }
    return entry->second;
  };
  state_of(0, 0);
  for (size_t at = 0; at < pairs.size(); ++at) {
    const auto [mine, theirs] = pairs[at];
    for (const Edge& edge : states_[mine].edges) {
      uint32_t from = edge.range.first;
      const auto reach = [&](uint32_t last, uint32_t target) {
        if (from > last) return;
        if (target != kDead || subtract) {
          const uint32_t pair = state_of(edge.target, target);
          out.states_[at].edges.push_back({{from, last}, pair});
        }
        from = last + 1;
      };
      if (theirs != kDead) {
        for (const Edge& cut : other.states_[theirs].edges) {
          if (cut.range.last < from || cut.range.first > edge.range.last) continue;
          if (cut.range.first > from) reach(cut.range.first - 1, kDead);
          reach(std::min(cut.range.last, edge.range.last), cut.target);
        }
      }
      reach(edge.range.last, kDead);
    }
  }
  return out;
}

bool CharacterAutomaton::matches(std::string_view text) const {
  uint32_t state = 0;
  for (size_t at = 0; at < text.size() && state != kDead;) {
    const Utf8Char character = decode_utf8(text, at);
    at += character.bytes;
    state = next(state, character.code);
  }
  return state != kDead && states_[state].ends;
}

bool CharacterAutomaton::empty() const {
  // Every state is reachable.
  return std::none_of(states_.begin(), states_.end(), [](const State& state) { return state.ends; });
}

ExpressionId CharacterAutomaton::expression(Spelling& spelling) const {
  ExpressionGraph graph;
  for (uint32_t at = 0; at < states_.size(); ++at) {
    graph.ends.push_back(states_[at].ends);
    std::map<uint32_t, std::vector<CodePointRange>> by_target;
    for (const Edge& edge : states_[at].edges) by_target[edge.target].push_back(edge.range);
    for (auto& [target, ranges] : by_target) {
      graph.edges.push_back({at, target, spelling.characters(CodePointSet(std::move(ranges)))});
    }
  }
  return spelling.productions().graph(std::move(graph));
}

}  // namespace braid
