// What a MaskCache remembers: entries with their tokens, and tables of tokens by how many passes of a loop they take.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "text/grammar/mask_cache.h"

namespace braid {

// More tokens than this become a set of bits.
inline constexpr size_t kMostListed = 1024;

// Nodes of the token tree at which a rule was left, each with a count (1 where nothing is counted).
struct MaskCache::NodeCounts {
  using Item = std::pair<uint32_t, uint32_t>;

  void take(std::vector<Item> items, uint32_t nodes);
  bool empty() const { return size_ == 0; }
  size_t size() const { return size_; }
  size_t bytes() const { return items_.capacity() * sizeof(Item) + by_node_.capacity() * sizeof(uint16_t); }
  // Some node has more than one count: it was reached in more than one way.
  bool several() const { return several_; }
  // 0 for a node that is not there. Only where no node has several.
  uint32_t count(uint32_t node) const;

  template <typename Visit>
  void for_each(const Visit& visit) const {
    for (const auto& [node, count] : items_) visit(node, count);
    for (uint32_t node = 0; node < by_node_.size(); ++node) {
      if (by_node_[node] != 0) visit(node, by_node_[node]);
    }
  }

 private:
  std::vector<Item> items_;        // ascending, when there are few
  std::vector<uint16_t> by_node_;  // when there are many
  size_t size_ = 0;
  bool several_ = false;
};

// Tokens that lie wholly in passes of a loop over characters, by how many passes they begin.
struct MaskCache::Table {
  // For texts at `state` of the body. `boundaries` gets the nodes at which a pass is complete.
  Table(const Automaton& automaton, const TokenTrie& trie, uint32_t state, NodeCounts& boundaries);
  // Sets the bits of tokens that begin at most so many passes.
  void apply(uint32_t most, std::span<int32_t> words) const;
  size_t bytes() const;

 private:
  static constexpr uint32_t kLevels = 16;  // sets of bits, by passes; the few longer tokens are listed

  std::vector<std::vector<int32_t>> levels_;  // [n]: tokens of at most n + 1 passes
  std::vector<int32_t> all_;
  std::vector<Found> listed_;  // ascending by count: all tokens, or those beyond the levels
  uint32_t most_ = 0;
};

struct MaskCache::Entry {
  std::shared_ptr<const Table> table;
  std::shared_ptr<const std::vector<int32_t>> dense;
  std::vector<Found> found;  // beside those
  NodeCounts pending;        // to be settled by the caller
  Entries below;             // by caller
  bool counted = false;      // the counts of `found` are limited by the window of the mask
  uint64_t used = 0;
  size_t bytes = 0;
};

struct MaskCache::Collected {
  std::vector<Found> found;
  std::vector<NodeCounts::Item> pending;
  uint32_t count = 1;  // that what is found next gets
};

}  // namespace braid
