// SPDX-License-Identifier: Apache-2.0
#include "state/prefix_index.h"

#include <algorithm>
#include <map>

#include "base/error.h"

namespace braid {

// `edge` are the tokens between the parent and this node; a mark stands at the end of them.
struct PrefixIndex::Node {
  std::vector<int32_t> edge;
  Node* parent = nullptr;
  MarkId mark = 0;
  std::map<int32_t, std::unique_ptr<Node>> children;  // by the first token of their edge
};

namespace {

size_t common_length(std::span<const int32_t> a, std::span<const int32_t> b) {
  const size_t most = std::min(a.size(), b.size());
  return static_cast<size_t>(std::mismatch(a.begin(), a.begin() + static_cast<std::ptrdiff_t>(most), b.begin()).first -
                             a.begin());
}

}  // namespace

PrefixIndex::PrefixIndex() : root_(std::make_unique<Node>()) {}
PrefixIndex::~PrefixIndex() = default;

PrefixIndex::Node* PrefixIndex::child_of(const Node& node, int32_t token) const {
  const auto child = node.children.find(token);
  return child == node.children.end() ? nullptr : child->second.get();
}

// Puts a node in the middle of this node's edge, and returns it.
PrefixIndex::Node* PrefixIndex::split(Node* node, size_t length) {
  std::unique_ptr<Node>& place = node->parent->children[node->edge[0]];
  auto upper = std::make_unique<Node>();
  const auto cut = node->edge.begin() + static_cast<std::ptrdiff_t>(length);
  upper->edge.assign(node->edge.begin(), cut);
  upper->parent = node->parent;
  node->edge.erase(node->edge.begin(), cut);
  node->parent = upper.get();
  upper->children[node->edge[0]] = std::move(place);
  place = std::move(upper);
  return place.get();
}

MarkId PrefixIndex::insert(std::span<const int32_t> tokens, MarkId id) {
  CHECK(!tokens.empty() && id != 0 && !marked_.contains(id), "id={} tokens={}", id, tokens.size());
  Node* node = root_.get();
  while (!tokens.empty()) {
    Node* child = child_of(*node, tokens[0]);
    if (child == nullptr) {
      auto leaf = std::make_unique<Node>();
      leaf->edge.assign(tokens.begin(), tokens.end());
      leaf->parent = node;
      child = leaf.get();
      node->children[tokens[0]] = std::move(leaf);
    }
    const size_t length = common_length(child->edge, tokens);
    node = length == child->edge.size() ? child : split(child, length);
    tokens = tokens.subspan(length);
  }
  if (node->mark == 0) node->mark = id, marked_[id] = node;
  return node->mark;
}

// Removes nodes that carry nothing, and joins one that only leads to another.
void PrefixIndex::prune(Node* node) {
  while (node != root_.get() && node->mark == 0 && node->children.empty()) {
    Node* parent = node->parent;
    parent->children.erase(parent->children.find(node->edge[0]));
    node = parent;
  }
  if (node == root_.get() || node->mark != 0 || node->children.size() != 1) return;
  std::unique_ptr<Node> child = std::move(node->children.begin()->second);
  child->edge.insert(child->edge.begin(), node->edge.begin(), node->edge.end());
  child->parent = node->parent;
  std::unique_ptr<Node>& place = node->parent->children[child->edge[0]];
  place = std::move(child);
}

void PrefixIndex::erase(MarkId id) {
  const auto place = marked_.find(id);
  CHECK(place != marked_.end(), "mark {}", id);
  Node* node = place->second;
  node->mark = 0;
  marked_.erase(place);
  prune(node);
}

MarkId PrefixIndex::any_mark(const Node* node) {
  while (node->mark == 0 && !node->children.empty()) node = node->children.begin()->second.get();
  return node->mark;
}

PrefixIndex::Found PrefixIndex::find(std::span<const int32_t> tokens) const {
  Found found;
  const Node* node = root_.get();
  int64_t depth = 0;
  for (const Node* child = nullptr; !tokens.empty() && (child = child_of(*node, tokens[0])) != nullptr; node = child) {
    const size_t length = common_length(child->edge, tokens);
    depth += static_cast<int64_t>(length);
    found.common = depth;
    found.beyond = any_mark(child);
    if (length < child->edge.size()) break;
    if (child->mark != 0) found.length = depth, found.mark = child->mark;
    tokens = tokens.subspan(length);
  }
  return found;
}

std::vector<int32_t> PrefixIndex::tokens_of(MarkId id) const {
  std::vector<const Node*> path;
  for (const Node* node = marked_.at(id); node->parent != nullptr; node = node->parent) path.push_back(node);
  std::vector<int32_t> tokens;
  for (auto node = path.rbegin(); node != path.rend(); ++node)
    tokens.insert(tokens.end(), (*node)->edge.begin(), (*node)->edge.end());
  return tokens;
}

void PrefixIndex::check_integrity() const {
  size_t marks = 0;
  std::vector<const Node*> open{root_.get()};
  while (!open.empty()) {
    const Node* node = open.back();
    open.pop_back();
    const bool root = node == root_.get();
    if (node->mark != 0) ++marks;
    CHECK(root || node->mark != 0 || node->children.size() > 1, "a node that carries nothing");
    CHECK(root == node->edge.empty() && (node->mark == 0 || marked_.at(node->mark) == node), "mark {}", node->mark);
    for (const auto& [token, child] : node->children) {
      CHECK(child->parent == node && child->edge[0] == token, "a child at the wrong place");
      open.push_back(child.get());
    }
  }
  CHECK(marks == marked_.size(), "{} marks of {}", marks, marked_.size());
}

}  // namespace braid
