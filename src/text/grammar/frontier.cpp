// Generalised LL recognition: calls are nodes shared by position, and every reading is followed once.
// SPDX-License-Identifier: Apache-2.0
#include "text/grammar/frontier.h"

#include <algorithm>

#include "base/error.h"

namespace braid {
namespace {

constexpr size_t kMostReadings = 1u << 14;  // of one step

}  // namespace

Frontier::Frontier(const Automaton& automaton)
    : automaton_(&automaton), nodes_(1), seen_(64), node_of_rule_(automaton.rules()) {}

Frontier::Mark Frontier::begin(Place place, bool closed) {
  start_step({.nodes = 1});
  if (closed) {
    add(place, kBase);
    return finish_step();
  }
  heads_.push_back({place, kBase});
  return finish_step();
}

Frontier::Mark Frontier::advance(const Mark& from, uint8_t byte) {
  if (from.last_head - from.first_head == 1) {
    const Head head = heads_[from.first_head];
    const uint32_t state = automaton_->next(head.place.state, byte);
    if (state == Automaton::kDead) return {from.last_head, from.last_head, from.nodes, from.links, false};
    if (automaton_->plain(state)) {
      heads_.resize(from.last_head);
      heads_.push_back({{state, 0}, head.node});
      return {from.last_head, from.last_head + 1, from.nodes, from.links, false};
    }
  }
  start_step(from);
  for (uint32_t i = from.first_head; i < from.last_head; ++i) {
    const Head head = heads_[i];
    const uint32_t state = automaton_->next(head.place.state, byte);
    if (state != Automaton::kDead) add({state, 0}, head.node);
  }
  return finish_step();
}

Frontier::Mark Frontier::join(const Mark& from, const Mark& to) {
  Mark joined = to;
  joined.first_head = from.last_head;
  joined.last_head = from.last_head + (to.last_head - to.first_head);
  std::copy(heads_.begin() + to.first_head, heads_.begin() + to.last_head, heads_.begin() + joined.first_head);
  return joined;
}

void Frontier::start_step(const Mark& from) {
  ++step_;
  heads_.resize(from.last_head);
  nodes_.resize(from.nodes);
  links_.resize(from.links);
  first_new_node_ = from.nodes;
  first_head_ = from.last_head;
  readings_ = 0;
  ended_ = false;
}

Frontier::Mark Frontier::finish_step() {
  while (!open_.empty()) {
    const Head head = open_.back();
    open_.pop_back();
    expand(head);
  }
  return {first_head_, static_cast<uint32_t>(heads_.size()), static_cast<uint32_t>(nodes_.size()),
          static_cast<uint32_t>(links_.size()), ended_};
}

bool Frontier::is_new(const Head& head) {
  if (++readings_ > kMostReadings || budget_ == 0) {
    open_.clear();
    fail("the grammar is too ambiguous: a text has too many readings");
  }
  --budget_;
  if (readings_ * 2 > seen_.size()) {
    const std::vector<Seen> old = std::move(seen_);
    seen_.assign(old.size() * 2, {});
    for (const Seen& entry : old) {
      if (entry.step == step_) is_new(entry.head), --readings_;
    }
  }
  const uint64_t hash = (head.place.state * 0x9E3779B97F4A7C15u) ^ (head.place.count * 0xC2B2AE3D27D4EB4Fu) ^
                        (head.node * 0x165667B19E3779F9u);
  for (size_t slot = (hash ^ (hash >> 32)) & (seen_.size() - 1);; slot = (slot + 1) & (seen_.size() - 1)) {
    Seen& entry = seen_[slot];
    if (entry.step != step_) {
      entry = {step_, head};
      return true;
    }
    if (entry.head.place == head.place && entry.head.node == head.node) return false;
  }
}

void Frontier::add(Place place, uint32_t node) {
  const Head head{place, node};
  if (!is_new(head)) return;
  if (!automaton_->edges(place.state).empty()) heads_.push_back(head);
  if (!automaton_->plain(place.state)) open_.push_back(head);
}

void Frontier::expand(Head head) {
  const auto [state, count] = head.place;
  if (const Automaton::Loop* loop = automaton_->loop(state)) {
    if (count >= loop->least) leave(head.node);
    if (count >= loop->most) return;
    // Beyond the last count that matters they are all one.
    const uint32_t after = loop->most == kUnbounded ? std::min(count + 1, loop->least) : count + 1;
    for (const Automaton::Call& each : automaton_->calls(state)) call(each.rule, {state, after}, head.node);
    return;
  }
  if (automaton_->ends(state)) leave(head.node);
  for (const Automaton::Call& each : automaton_->calls(state)) call(each.rule, {each.back, 0}, head.node);
}

void Frontier::call(uint32_t rule, Place back, uint32_t node) {
  RuleNode& entry = node_of_rule_[rule];
  const bool is_first = entry.step != step_;
  if (is_first) {
    entry = {step_, static_cast<uint32_t>(nodes_.size())};
    nodes_.push_back({});
  }
  const uint32_t callee = entry.node;
  links_.push_back({back, node, nodes_[callee].links});
  nodes_[callee].links = static_cast<uint32_t>(links_.size() - 1);
  if (is_first) {
    add({automaton_->start(rule), 0}, callee);
  } else if (nodes_[callee].returned) {
    go_back(links_.back(), callee);
  }
}

void Frontier::leave(uint32_t node) {
  if (node == kBase) {
    ended_ = true;
    return;
  }
  if (node >= first_new_node_) nodes_[node].returned = true;
  for (uint32_t i = nodes_[node].links; i != kNone; i = links_[i].next) go_back(links_[i], node);
}

void Frontier::go_back(const Link& link, uint32_t from) {
  const Automaton::Loop* loop = automaton_->loop(link.back.state);
  if (loop != nullptr && loop->nullable_body && from >= first_new_node_) return;  // a pass over nothing
  add(link.back, link.node);
}

}  // namespace braid
