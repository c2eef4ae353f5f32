// Which token sequences have state that is kept, and which of them a prompt begins with: a radix tree over tokens.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <unordered_map>
#include <vector>

namespace braid {

// Names kept state; given by whoever keeps it.
using MarkId = uint64_t;

// Holds no state and decides nothing. Every leaf of the tree carries a mark, so the tree is as large as what is kept.
class PrefixIndex {
 public:
  PrefixIndex();
  ~PrefixIndex();

  // Marks these tokens, of which there is at least one. Returns the id that they carry: another one than `id` when they
  // were marked before, and then nothing changes.
  MarkId insert(std::span<const int32_t> tokens, MarkId id);
  void erase(MarkId id);

  struct Found {
    int64_t length = 0;  // of the longest marked sequence that the tokens begin with; 0: none
    MarkId mark = 0;
    int64_t common = 0;  // how far any marked sequence agrees with the tokens; at least `length`
    MarkId beyond = 0;   // a mark that agrees so far; 0 where `common` is 0
  };
  Found find(std::span<const int32_t> tokens) const;
  // The tokens that carry this mark.
  std::vector<int32_t> tokens_of(MarkId id) const;
  size_t size() const { return marked_.size(); }
  // Programmer check of the tree's shape.
  void check_integrity() const;

 private:
  struct Node;
  Node* child_of(const Node& node, int32_t token) const;
  Node* split(Node* node, size_t length);
  void prune(Node* node);
  static MarkId any_mark(const Node* node);

  std::unique_ptr<Node> root_;
  std::unordered_map<MarkId, Node*> marked_;
};

}  // namespace braid
