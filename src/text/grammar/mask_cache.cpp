// Walks of the token tree through the automaton, and what is remembered of them.
// SPDX-License-Identifier: Apache-2.0
#include "text/grammar/mask_cache.h"

#include <algorithm>
#include <bitset>

#include "text/grammar/mask_entries.h"

namespace braid {
namespace {

constexpr int kMostChains = 256;               // beyond it a mask is found by one walk of the whole tree
constexpr uint64_t kMostReadings = 16u << 20;  // of one mask: about half a second
constexpr size_t kPrepared = 6;                // entries made ahead
constexpr int kWideState = 40;                 // bytes from which a state is worth preparing
constexpr size_t kEntryBytes = 256;            // of an empty entry, with its place in the map

}  // namespace

void set_bit(std::span<int32_t> words, int32_t token) {
  words[static_cast<size_t>(token) / 32] |= static_cast<int32_t>(1u << (static_cast<uint32_t>(token) % 32));
}

MaskCache::MaskCache(std::shared_ptr<const Automaton> automaton, std::shared_ptr<const TokenTrie> trie,
                     size_t most_bytes)
    : automaton_(std::move(automaton)),
      trie_(std::move(trie)),
      most_bytes_(most_bytes),
      frontier_(*automaton_),
      marks_(trie_->most_bytes() + 2) {}

MaskCache::~MaskCache() = default;

size_t MaskCache::bytes() const {
  const std::lock_guard guard(lock_);
  return bytes_;
}

void MaskCache::add(const Frontier& frontier, const Frontier::Mark& mark, std::span<int32_t> words) {
  const std::lock_guard guard(lock_);
  if (bytes_ > most_bytes_) evict();
  words_ = words;
  ++clock_;
  chains_ = 0;
  frontier_.set_budget(kMostReadings);
  bool all = true;
  for (const Head& head : frontier.heads(mark)) {
    if (head.node == Frontier::kBase) {
      window_ = {};
      all = visit(entry_of_state(head.place.state), frontier, head.node) && all;
      continue;
    }
    for (uint32_t i = frontier.callers(head.node); i != Frontier::kNone && all; i = frontier.link(i).next) {
      const Frontier::Link& link = frontier.link(i);
      const bool counted = counts_characters(head.place.state, link.back);
      window_ = counted ? window_of(link.back) : Window{};
      if (counted) {
        all = visit(entry_of_body(head.place.state), frontier, link.node);
      } else {
        all = visit(entry_below(entry_of_state(head.place.state), link.back), frontier, link.node);
      }
    }
    if (!all) break;
  }
  if (all) return;
  Frontier copy = frontier;
  copy.set_budget(kMostReadings);
  Collected out;
  walk(copy, 0, mark, out);
  for (const Found& found : out.found) set_bit(words, found.token);
}

// False when there are too many chains of callers to follow each.
bool MaskCache::visit(Entry& entry, const Frontier& frontier, uint32_t node) {
  entry.used = clock_;
  if (node == Frontier::kBase || entry.pending.empty()) {
    apply(entry);
    return true;
  }
  for (uint32_t i = frontier.callers(node); i != Frontier::kNone; i = frontier.link(i).next) {
    if (++chains_ > kMostChains) return false;
    const Frontier::Link& link = frontier.link(i);
    if (!visit(entry_below(entry, link.back), frontier, link.node)) return false;
  }
  return true;
}

void MaskCache::apply(const Entry& entry) {
  if (entry.table != nullptr) entry.table->apply(window_.most, words_);
  if (entry.dense != nullptr) {
    const int32_t* dense = entry.dense->data();
    for (size_t i = 0; i < entry.dense->size(); ++i) words_[i] |= dense[i];
  }
  for (const Found& found : entry.found) {
    if (found.count >= window_.least && found.count <= window_.most) set_bit(words_, found.token);
  }
}

bool MaskCache::counts_characters(uint32_t state, Place back) const {
  const Automaton::Loop* loop = automaton_->loop(back.state);
  return loop != nullptr && loop->character_body && loop->body == automaton_->rule_of(state);
}

// Of a token that begins inside the body: how many passes it may end before it leaves the loop, and how many it may
// begin. The pass under way is counted in `back` and here.
MaskCache::Window MaskCache::window_of(Place back) const {
  const Automaton::Loop& loop = *automaton_->loop(back.state);
  Window window;
  window.least = 1 + (loop.least > back.count ? loop.least - back.count : 0);
  window.most = loop.most == kUnbounded ? kUnbounded : 1 + loop.most - back.count;
  return window;
}

// Counts that no token can tell apart are one: a pass takes a byte at least.
uint64_t MaskCache::key_of(Place back) const {
  uint64_t count = back.count;
  if (const Automaton::Loop* loop = automaton_->loop(back.state)) {
    const uint32_t cap = trie_->most_bytes() + 1;
    const uint32_t needed = std::min(loop->least > back.count ? loop->least - back.count : 0, cap);
    const uint32_t left = loop->most == kUnbounded ? cap : std::min(loop->most - back.count, cap);
    count = (uint64_t{needed} << 16) + left;
  }
  return (uint64_t{back.state} << 33) | count;
}

MaskCache::Entry& MaskCache::entry_of_state(uint32_t state) {
  std::unique_ptr<Entry>& entry = by_state_[state];
  if (entry == nullptr) {
    Collected out;
    walk(frontier_, 0, frontier_.begin({state, 0}, false), out);
    entry = make_entry(nullptr, std::move(out));
  }
  entry->used = clock_;
  return *entry;
}

MaskCache::Entry& MaskCache::entry_of_body(uint32_t state) {
  std::unique_ptr<Entry>& entry = by_body_[state];
  if (entry == nullptr) {
    entry = std::make_unique<Entry>();
    entry->table = std::make_shared<const Table>(*automaton_, *trie_, state, entry->pending);
    entry->counted = true;
    entry->bytes = kEntryBytes + entry->table->bytes() + entry->pending.bytes();
    bytes_ += entry->bytes;
  }
  entry->used = clock_;
  return *entry;
}

MaskCache::Entry& MaskCache::entry_below(Entry& above, Place back) {
  if (above.pending.empty()) return above;
  std::unique_ptr<Entry>& entry = above.below[key_of(back)];
  if (entry == nullptr) {
    Collected out;
    resolve(above.pending, frontier_.begin(back, true), out);
    entry = make_entry(&above, std::move(out));
  }
  entry->used = clock_;
  return *entry;
}

std::unique_ptr<MaskCache::Entry> MaskCache::make_entry(const Entry* above, Collected collected) {
  auto made = std::make_unique<Entry>();
  Entry& entry = *made;
  if (above != nullptr) {
    entry.table = above->table;
    entry.dense = above->dense;
    entry.counted = above->counted;
    collected.found.insert(collected.found.end(), above->found.begin(), above->found.end());
  }
  entry.pending.take(std::move(collected.pending), trie_->nodes());
  entry.bytes = kEntryBytes + entry.pending.bytes();
  if (!entry.counted && collected.found.size() > kMostListed) {
    auto dense = entry.dense != nullptr ? std::make_shared<std::vector<int32_t>>(*entry.dense)
                                        : std::make_shared<std::vector<int32_t>>(trie_->highest_id() / 32 + 1);
    for (const Found& found : collected.found) set_bit(*dense, found.token);
    entry.bytes += dense->size() * sizeof(int32_t);
    entry.dense = std::move(dense);
    collected.found.clear();
  }
  entry.found.assign(collected.found.begin(), collected.found.end());
  entry.bytes += entry.found.capacity() * sizeof(Found);
  bytes_ += entry.bytes;
  return made;
}

void MaskCache::settle(uint32_t node, const Frontier::Mark& mark, Collected& out) {
  for (const int32_t token : trie_->tokens(node)) out.found.push_back({token, out.count});
  if (mark.ended && !trie_->is_leaf(node)) out.pending.push_back({node, out.count});
}

// Everything below `root`, where the text is at `at_root`.
void MaskCache::walk(Frontier& frontier, uint32_t root, const Frontier::Mark& at_root, Collected& out) {
  if (at_root.first_head == at_root.last_head) return;
  const uint32_t above = trie_->depth(root);
  marks_[0] = at_root;
  for (uint32_t node = root + 1; node < trie_->skip(root);) {
    const uint32_t depth = trie_->depth(node) - above;
    const Frontier::Mark mark = frontier.advance(marks_[depth - 1], trie_->byte(node));
    if (!mark.dead()) settle(node, mark, out);
    if (mark.first_head == mark.last_head) {
      node = trie_->skip(node);
      continue;
    }
    marks_[depth] = mark;
    ++node;
  }
}

// What follows the pending nodes when the text is at `start` there.
void MaskCache::resolve(const NodeCounts& pending, const Frontier::Mark& start, Collected& out) {
  std::bitset<256> bytes;
  size_t candidates = 0;
  for (const Head& head : frontier_.heads(start)) {
    for (const Automaton::Edge& edge : automaton_->edges(head.place.state)) {
      for (int byte = edge.first; byte <= edge.last; ++byte) bytes.set(static_cast<size_t>(byte));
    }
  }
  for (size_t byte = 0; byte < 256; ++byte) {
    if (bytes[byte]) candidates += trie_->nodes_of(static_cast<uint8_t>(byte)).size();
  }
  const bool by_byte = !pending.several() && candidates < pending.size() * 8;
  if (start.ended) {
    pending.for_each([&](uint32_t node, uint32_t count) { out.pending.push_back({node, count}); });
  }
  if (!by_byte) {
    pending.for_each([&](uint32_t node, uint32_t count) {
      out.count = count;
      walk(frontier_, node, start, out);
    });
    return;
  }
  for (size_t byte = 0; byte < 256; ++byte) {
    if (!bytes[byte]) continue;
    const Frontier::Mark mark = frontier_.advance(start, static_cast<uint8_t>(byte));
    for (const uint32_t node : trie_->nodes_of(static_cast<uint8_t>(byte))) {
      out.count = pending.count(trie_->parent(node));
      if (out.count == 0) continue;
      settle(node, mark, out);
      walk(frontier_, node, mark, out);
    }
  }
}

void MaskCache::prepare() {
  const std::lock_guard guard(lock_);
  frontier_.set_budget(kPrepared * kMostReadings);
  std::vector<bool> counted(automaton_->rules(), false);
  for (uint32_t state = 0; state < automaton_->states(); ++state) {
    const Automaton::Loop* loop = automaton_->loop(state);
    if (loop != nullptr && loop->character_body) counted[loop->body] = true;
  }
  std::vector<std::pair<int, uint32_t>> wide;
  for (uint32_t state = 0; state < automaton_->states(); ++state) {
    const int width = automaton_->width(state);
    if (width >= kWideState) wide.emplace_back(-width, state);
  }
  std::sort(wide.begin(), wide.end());
  wide.resize(std::min(wide.size(), kPrepared));
  for (const auto& [width, state] : wide) {
    const uint32_t rule = automaton_->rule_of(state);
    if (counted[rule] && automaton_->start(rule) == state) {
      entry_of_body(state);
    } else {
      entry_of_state(state);
    }
  }
}

// Entries that were not used since the median use, unless one below them was. What is in use is used later than its
// callers' entries, so a whole subtree goes at once.
void MaskCache::evict() {
  std::vector<uint64_t> uses;
  const auto count = [&](const auto& self, const Entries& entries) -> void {
    for (const auto& [key, entry] : entries) {
      uses.push_back(entry->used);
      self(self, entry->below);
    }
  };
  count(count, by_state_);
  count(count, by_body_);
  const auto middle = uses.begin() + static_cast<std::ptrdiff_t>(uses.size() / 2);
  std::nth_element(uses.begin(), middle, uses.end());
  const uint64_t oldest = *middle;
  const auto freed = [&](const auto& self, const Entry& entry) -> void {
    bytes_ -= entry.bytes;
    for (const auto& [key, below] : entry.below) self(self, *below);
  };
  const auto drop = [&](const auto& self, Entries& entries) -> void {
    std::erase_if(entries, [&](const auto& item) {
      if (item.second->used > oldest) return false;
      freed(freed, *item.second);
      return true;
    });
    for (const auto& [key, entry] : entries) self(self, entry->below);
  };
  drop(drop, by_state_);
  drop(drop, by_body_);
}

}  // namespace braid
