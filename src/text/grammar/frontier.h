// Frontier: all the ways in which a text so far can be read by an automaton, byte by byte, with cheap ways back.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "text/grammar/automaton.h"

namespace braid {

// One reading: a place, and the call that it is in. A node is one rule called at one position, by any number of
// callers, so that readings which differ only in who called are one. Left recursion is a node that calls itself.
struct Head {
  Place place;
  uint32_t node;
};

// Marks are positions of a text. Those made from one another form a path, and going on from an earlier one forgets the
// later ones: memory is one stack. One thread at a time. The automaton outlives it.
class Frontier {
 public:
  struct Mark {
    uint32_t first_head = 0, last_head = 0, nodes = 0, links = 0;
    bool ended = false;  // the text up to here is whole: the base was returned to
    bool dead() const { return first_head == last_head && !ended; }
  };
  struct Link {
    Place back;
    uint32_t node, next;  // next: another caller of the same node, or kNone
  };
  static constexpr uint32_t kNone = 0xFFFFFFFFu, kBase = 0;

  explicit Frontier(const Automaton& automaton);

  // A text begins in rule 0; returning from it is the end.
  Mark begin() { return begin({automaton_->start(), 0}, true); }
  // A text goes on at `place`, in a call from an unknown place, which is the base. Without `closed` only the bytes that
  // lead on from there count, not what it calls or returns to.
  Mark begin(Place place, bool closed);
  // The text longer by a byte. Grammars with very many readings of one text are an Input error.
  Mark advance(const Mark& from, uint8_t byte);
  // Readings that may be followed from now on, by all steps together; more are an Input error.
  void set_budget(uint64_t readings) { budget_ = readings; }
  // Drops the heads between `from` and `to`, which no mark needs any more.
  Mark join(const Mark& from, const Mark& to);

  std::span<const Head> heads(const Mark& mark) const {
    return std::span(heads_).subspan(mark.first_head, mark.last_head - mark.first_head);
  }
  // The first caller of a node, kNone for the base.
  uint32_t callers(uint32_t node) const { return nodes_[node].links; }
  const Link& link(uint32_t index) const { return links_[index]; }
  size_t bytes() const {
    return heads_.capacity() * sizeof(Head) + nodes_.capacity() * sizeof(Node) + links_.capacity() * sizeof(Link);
  }

 private:
  struct Node {
    uint32_t links = kNone;
    bool returned = false;  // within the step that made it: it matched nothing
  };
  struct RuleNode {
    uint64_t step = 0;
    uint32_t node = 0;
  };
  struct Seen {
    uint64_t step = 0;
    Head head;
  };

  void start_step(const Mark& from);
  Mark finish_step();
  void add(Place place, uint32_t node);
  void expand(Head head);
  void call(uint32_t rule, Place back, uint32_t node);
  void leave(uint32_t node);
  void go_back(const Link& link, uint32_t from);
  bool is_new(const Head& head);

  const Automaton* automaton_;
  std::vector<Head> heads_;
  std::vector<Node> nodes_;
  std::vector<Link> links_;
  // Of the step under way.
  std::vector<Head> open_;
  std::vector<Seen> seen_;
  std::vector<RuleNode> node_of_rule_;
  uint64_t step_ = 0, budget_ = ~uint64_t{0};
  uint32_t first_new_node_ = 0, first_head_ = 0, readings_ = 0;
  bool ended_ = false;
};

}  // namespace braid
