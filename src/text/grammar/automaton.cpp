// Sets of states of a rule's Nfa become states of the automaton; what cannot reach an end is cut away.
// SPDX-License-Identifier: Apache-2.0
#include "text/grammar/automaton.h"

#include <algorithm>
#include <array>
#include <map>
#include <unordered_map>

#include "base/error.h"
#include "text/grammar/nfa.h"

namespace braid {
namespace {

// A hostile pattern can ask for exponentially many sets, and sets can be large: both are bounded, so that the worst
// case takes about half a second and some hundred MB.
constexpr size_t kMostStates = 1u << 18;
constexpr size_t kMostVisits = 24u << 20;
constexpr size_t kWideEdges = 4;  // from so many edges on a state gets a row of 256 targets

using StateSet = std::vector<uint32_t>;

struct StateSetHash {
  size_t operator()(const StateSet& set) const {
    uint64_t hash = 0xCBF29CE484222325u;
    for (const uint32_t state : set) hash = (hash ^ state) * 0x9E3779B97F4A7C15u;
    return hash ^ (hash >> 29);
  }
};

}  // namespace

// Builds every rule that can be reached, then trims and packs them.
class AutomatonBuilder {
 public:
  AutomatonBuilder(const Productions& productions, Automaton& out)
      : productions_(productions), loops_(static_cast<uint32_t>(productions.rules())), out_(out) {}

  void build() {
    visit(0);
    while (!open_rules_.empty()) {
      const uint32_t rule = open_rules_.back();
      open_rules_.pop_back();
      if (rule < loops_.first_rule()) {
        determinise(rule);
      } else {
        add_loop(rule);
      }
    }
    mark_alive();
    if (!alive_[starts_[0]]) fail("the grammar matches no text");
    pack();
    describe_loops();
  }

 private:
  struct Draft {
    std::vector<Automaton::Edge> edges;
    std::vector<Automaton::Call> calls;
    uint32_t rule = 0;
    int32_t loop = -1;
    bool ends = false;
  };

  // Makes sure that a rule will be built.
  void visit(uint32_t rule) {
    if (rule >= starts_.size()) starts_.resize(rule + 1, Automaton::kDead);
    if (rule >= visited_.size()) visited_.resize(rule + 1, false);
    if (visited_[rule]) return;
    visited_[rule] = true;
    open_rules_.push_back(rule);
  }

  uint32_t add_state(uint32_t rule) {
    if (drafts_.size() >= kMostStates) fail("the grammar is too complex: more than {} states", kMostStates);
    drafts_.push_back({.rule = rule});
    return static_cast<uint32_t>(drafts_.size() - 1);
  }

  void count_visits(size_t visits) {
    visits_ += visits;
    if (visits_ > kMostVisits) fail("the grammar is too complex: its alternatives overlap too much");
  }

  void add_loop(uint32_t rule) {
    const LoopRule loop = loops_.all()[rule - loops_.first_rule()];
    if (loop.least == 1 && loop.most == 1) return determinise(rule);  // the body of others
    const uint32_t body = loops_.rule({loop.body, 1, 1});
    visit(body);
    const uint32_t state = add_state(rule);
    starts_[rule] = state;
    drafts_[state].loop = static_cast<int32_t>(out_.loops_.size());
    drafts_[state].ends = loop.least == 0;
    drafts_[state].calls.push_back({body, state});
    out_.loops_.push_back({body, loop.least, loop.most});
  }

  ExpressionId expression_of(uint32_t rule) const {
    return rule < loops_.first_rule() ? productions_.body(rule) : loops_.all()[rule - loops_.first_rule()].body;
  }

  // The closure of the states that `set` holds, sorted: only those with more than empty links, and the end.
  void close(const Nfa& nfa, StateSet& set) {
    if (seen_.size() < nfa.first_link.size()) seen_.resize(nfa.first_link.size(), 0);
    ++stamp_;
    StateSet open;
    for (const uint32_t state : set) {
      if (seen_[state] != stamp_) open.push_back(state);
      seen_[state] = stamp_;
    }
    set.clear();
    size_t links = 0;
    while (!open.empty()) {
      const uint32_t state = open.back();
      open.pop_back();
      bool matters = state == 1;
      for (uint32_t i = nfa.first_link[state]; i != Nfa::kNone; i = nfa.links[i].next) {
        const Nfa::Link& link = nfa.links[i];
        ++links;
        if (link.via != Nfa::Via::Nothing) {
          matters = true;
        } else if (seen_[link.target] != stamp_) {
          seen_[link.target] = stamp_;
          open.push_back(link.target);
        }
      }
      if (matters) set.push_back(state);
    }
    count_visits(links + set.size());
    std::sort(set.begin(), set.end());
  }

  void determinise(uint32_t rule) {
    const Nfa nfa = make_nfa(productions_, expression_of(rule), loops_);
    count_visits(nfa.links.size());
    std::unordered_map<StateSet, uint32_t, StateSetHash> known;
    std::vector<std::pair<const StateSet*, uint32_t>> open;
    const auto state_of = [&](StateSet set) {
      close(nfa, set);
      const auto [entry, is_new] = known.try_emplace(std::move(set), 0);
      if (is_new) {
        entry->second = add_state(rule);
        drafts_[entry->second].ends = std::binary_search(entry->first.begin(), entry->first.end(), 1u);
        open.emplace_back(&entry->first, entry->second);
      }
      return entry->second;
    };
    starts_[rule] = state_of({0});
    while (!open.empty()) {
      const auto [set, state] = open.back();
      open.pop_back();
      expand(nfa, *set, state, state_of);
    }
  }

  // The links of all states of a set, gathered by byte and by called rule.
  template <typename StateOf>
  void expand(const Nfa& nfa, const StateSet& set, uint32_t state, const StateOf& state_of) {
    std::map<uint32_t, StateSet> by_rule;
    size_t visits = 0;
    for (const uint32_t member : set) {
      for (uint32_t i = nfa.first_link[member]; i != Nfa::kNone; i = nfa.links[i].next) {
        const Nfa::Link& link = nfa.links[i];
        if (link.via == Nfa::Via::Call) by_rule[link.rule].push_back(link.target);
        if (link.via != Nfa::Via::Bytes) continue;
        visits += 1 + link.bytes.last - link.bytes.first;
        for (int byte = link.bytes.first; byte <= link.bytes.last; ++byte) by_byte_[byte].push_back(link.target);
      }
    }
    count_visits(visits);
    for (int first = 0; first < 256;) {
      int last = first;
      while (last < 255 && by_byte_[last + 1] == by_byte_[first]) ++last;
      if (!by_byte_[first].empty()) {
        const uint32_t target = state_of(by_byte_[first]);
        drafts_[state].edges.push_back({target, static_cast<uint8_t>(first), static_cast<uint8_t>(last)});
      }
      for (; first <= last; ++first) by_byte_[first].clear();
    }
    for (auto& [rule, targets] : by_rule) {
      visit(rule);
      const uint32_t back = state_of(std::move(targets));
      drafts_[state].calls.push_back({rule, back});
    }
  }

  // Backwards from the ends: a state is alive if its rule can end from it; a call needs a rule that can end, too.
  void mark_alive() {
    struct Source {
      uint32_t state, rule;
    };
    std::vector<std::vector<uint32_t>> byte_sources(drafts_.size());
    std::vector<std::vector<Source>> call_sources(drafts_.size());
    std::vector<std::vector<uint32_t>> waiting(starts_.size());  // states whose call only needs the rule to be alive
    alive_.assign(drafts_.size(), false);
    StateSet open;
    const auto revive = [&](uint32_t state) {
      if (!alive_[state]) open.push_back(state);
      alive_[state] = true;
    };
    for (uint32_t state = 0; state < drafts_.size(); ++state) {
      const Draft& draft = drafts_[state];
      for (const Automaton::Edge& edge : draft.edges) byte_sources[edge.target].push_back(state);
      for (const Automaton::Call& call : draft.calls) {
        if (draft.loop >= 0) {
          waiting[call.rule].push_back(state);  // a loop can end once its body can
        } else {
          call_sources[call.back].push_back({state, call.rule});
        }
      }
      if (draft.ends) revive(state);
    }
    while (!open.empty()) {
      const uint32_t state = open.back();
      open.pop_back();
      for (const uint32_t source : byte_sources[state]) revive(source);
      for (const Source& source : call_sources[state]) {
        if (alive_[starts_[source.rule]]) {
          revive(source.state);
        } else {
          waiting[source.rule].push_back(source.state);
        }
      }
      const uint32_t rule = drafts_[state].rule;
      if (starts_[rule] != state) continue;
      for (const uint32_t source : waiting[rule]) revive(source);
    }
  }

  void pack() {
    std::vector<uint32_t> place(drafts_.size(), Automaton::kDead);
    uint32_t count = 0;
    for (uint32_t state = 0; state < drafts_.size(); ++state) {
      if (alive_[state]) place[state] = count++;
    }
    for (uint32_t state = 0; state < drafts_.size(); ++state) {
      if (alive_[state]) pack(drafts_[state], place);
    }
    out_.states_.push_back(
        {.edges = static_cast<uint32_t>(out_.edges_.size()), .calls = static_cast<uint32_t>(out_.calls_.size())});
    for (const uint32_t start : starts_) {
      out_.starts_.push_back(start == Automaton::kDead ? start : place[start]);
    }
  }

  void pack(const Draft& draft, const std::vector<uint32_t>& place) {
    Automaton::State state{.edges = static_cast<uint32_t>(out_.edges_.size()),
                           .calls = static_cast<uint32_t>(out_.calls_.size()),
                           .rule = draft.rule,
                           .loop = draft.loop,
                           .ends = draft.ends};
    for (const Automaton::Edge& edge : draft.edges) {
      if (alive_[edge.target]) out_.edges_.push_back({place[edge.target], edge.first, edge.last});
    }
    for (const Automaton::Call& call : draft.calls) {
      if (alive_[starts_[call.rule]] && alive_[call.back]) out_.calls_.push_back({call.rule, place[call.back]});
    }
    const size_t edges = out_.edges_.size() - state.edges;
    state.plain = out_.calls_.size() == state.calls && !draft.ends && draft.loop < 0;
    if (edges >= kWideEdges) {
      state.row = static_cast<int32_t>(out_.rows_.size() / 256);
      out_.rows_.resize(out_.rows_.size() + 256, Automaton::kDead);
      uint32_t* row = out_.rows_.data() + static_cast<size_t>(state.row) * 256;
      for (size_t i = state.edges; i < out_.edges_.size(); ++i) {
        const Automaton::Edge& edge = out_.edges_[i];
        std::fill(row + edge.first, row + edge.last + 1, edge.target);
      }
    }
    out_.states_.push_back(state);
  }

  void describe_loops() {
    const std::vector<bool> nullable = nullable_rules();
    std::vector<bool> character(starts_.size(), true);
    for (uint32_t state = 0; state < out_.states(); ++state) {
      const bool runs_on = out_.ends(state) && !out_.edges(state).empty();
      if (runs_on || !out_.calls(state).empty() || out_.loop(state) != nullptr) character[out_.rule_of(state)] = false;
    }
    for (Automaton::Loop& loop : out_.loops_) {
      loop.nullable_body = nullable[loop.body];
      loop.character_body = character[loop.body] && !nullable[loop.body];
      if (loop.nullable_body) loop.least = 0;
    }
    for (uint32_t state = 0; state < out_.states(); ++state) {
      const Automaton::Loop* loop = out_.loop(state);
      if (loop != nullptr && loop->least == 0) out_.states_[state].ends = true;
    }
  }

  // Rules that match the empty text.
  std::vector<bool> nullable_rules() const {
    std::vector<bool> rules(starts_.size(), false), states(out_.states(), false);
    std::vector<std::vector<std::pair<uint32_t, uint32_t>>> sources(out_.states());  // by back: state, rule
    std::vector<std::vector<uint32_t>> waiting(starts_.size());
    StateSet open;
    const auto reach = [&](uint32_t state) {
      if (!states[state]) open.push_back(state);
      states[state] = true;
    };
    for (uint32_t state = 0; state < out_.states(); ++state) {
      if (out_.ends(state)) reach(state);
      for (const Automaton::Call& call : out_.calls(state)) {
        if (out_.loop(state) != nullptr) {
          waiting[call.rule].push_back(state);
        } else {
          sources[call.back].emplace_back(state, call.rule);
        }
      }
    }
    while (!open.empty()) {
      const uint32_t state = open.back();
      open.pop_back();
      for (const auto& [source, rule] : sources[state]) {
        if (rules[rule]) {
          reach(source);
        } else {
          waiting[rule].push_back(source);
        }
      }
      const uint32_t rule = out_.rule_of(state);
      if (out_.starts_[rule] != state || rules[rule]) continue;
      rules[rule] = true;
      for (const uint32_t source : waiting[rule]) reach(source);
    }
    return rules;
  }

  const Productions& productions_;
  LoopRules loops_;
  Automaton& out_;
  std::vector<Draft> drafts_;
  std::vector<uint32_t> starts_, open_rules_;
  std::vector<bool> visited_, alive_;
  std::array<StateSet, 256> by_byte_;  // empty between two calls of expand
  std::vector<uint64_t> seen_;
  uint64_t stamp_ = 0;
  size_t visits_ = 0;
};

Automaton::Automaton(const Productions& productions) { AutomatonBuilder(productions, *this).build(); }

size_t Automaton::bytes() const {
  return states_.size() * sizeof(State) + edges_.size() * sizeof(Edge) + calls_.size() * sizeof(Call) +
         loops_.size() * sizeof(Loop) + (starts_.size() + rows_.size()) * sizeof(uint32_t);
}

int Automaton::width(uint32_t state) const {
  int width = 0;
  for (const Edge& edge : edges(state)) width += 1 + edge.last - edge.first;
  return width;
}

}  // namespace braid
