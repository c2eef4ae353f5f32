// Tables of loops over characters: one walk settles every count.
// SPDX-License-Identifier: Apache-2.0
#include "text/grammar/mask_entries.h"

#include <algorithm>

namespace braid {
namespace {

constexpr size_t kManyNodes = 4096;

}  // namespace

void MaskCache::NodeCounts::take(std::vector<Item> items, uint32_t nodes) {
  std::sort(items.begin(), items.end());
  items.erase(std::unique(items.begin(), items.end()), items.end());
  size_ = items.size();
  for (size_t i = 1; i < size_; ++i) several_ = several_ || items[i].first == items[i - 1].first;
  if (size_ <= kManyNodes || several_) {
    items_.assign(items.begin(), items.end());
    return;
  }
  by_node_.assign(nodes, 0);
  for (const auto& [node, count] : items) by_node_[node] = static_cast<uint16_t>(std::min(count, 0xFFFFu));
}

uint32_t MaskCache::NodeCounts::count(uint32_t node) const {
  if (!by_node_.empty()) return by_node_[node];
  const auto found = std::lower_bound(items_.begin(), items_.end(), Item{node, 0});
  return found != items_.end() && found->first == node ? found->second : 0;
}

MaskCache::Table::Table(const Automaton& automaton, const TokenTrie& trie, uint32_t state, NodeCounts& boundaries) {
  struct At {
    uint32_t state, complete;
  };
  const uint32_t start = automaton.start(automaton.rule_of(state));
  std::vector<At> path(trie.most_bytes() + 2);
  std::vector<NodeCounts::Item> ends;
  path[0] = {state, 0};
  for (uint32_t node = 1; node < trie.nodes();) {
    const At& before = path[trie.depth(node) - 1];
    At& here = path[trie.depth(node)];
    here = {automaton.next(before.state, trie.byte(node)), before.complete};
    if (here.state == Automaton::kDead) {
      node = trie.skip(node);
      continue;
    }
    uint32_t begun = here.complete + 1;
    if (automaton.ends(here.state)) {
      here = {start, begun};
      if (!trie.is_leaf(node)) ends.emplace_back(node, begun);
    }
    for (const int32_t token : trie.tokens(node)) listed_.push_back({token, begun});
    most_ = std::max(most_, begun);
    ++node;
  }
  boundaries.take(std::move(ends), trie.nodes());
  std::stable_sort(listed_.begin(), listed_.end(), [](const Found& a, const Found& b) { return a.count < b.count; });
  if (listed_.size() <= kMostListed) return;
  std::vector<int32_t> bits(static_cast<size_t>(trie.highest_id() / 32 + 1));
  size_t next = 0;
  for (uint32_t count = 1; count <= kLevels; ++count) {
    for (; next < listed_.size() && listed_[next].count <= count; ++next) set_bit(bits, listed_[next].token);
    levels_.push_back(bits);
  }
  listed_ = {listed_.begin() + static_cast<std::ptrdiff_t>(next), listed_.end()};
  for (const Found& found : listed_) set_bit(bits, found.token);
  all_ = std::move(bits);
}

void MaskCache::Table::apply(uint32_t most, std::span<int32_t> words) const {
  const std::vector<int32_t>* bits = nullptr;
  if (!levels_.empty()) bits = most >= most_ ? &all_ : &levels_[std::min(most, kLevels) - 1];
  if (bits != nullptr) {
    for (size_t i = 0; i < bits->size(); ++i) words[i] |= (*bits)[i];
  }
  if (bits == &all_ && bits != nullptr) return;
  for (const Found& found : listed_) {
    if (found.count > most) break;
    set_bit(words, found.token);
  }
}

size_t MaskCache::Table::bytes() const {
  return (levels_.size() + 1) * all_.size() * sizeof(int32_t) + listed_.capacity() * sizeof(Found);
}

}  // namespace braid
