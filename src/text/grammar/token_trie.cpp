// The tree is made of the sorted tokens in one pass.
// SPDX-License-Identifier: Apache-2.0
#include "text/grammar/token_trie.h"

#include <algorithm>

#include "base/error.h"
#include "text/tokenizer/tokenizer.h"

namespace braid {
namespace {

constexpr size_t kMostBytes = 0xFFFF;

// What a special token is in a grammar: the byte that no text has, and its id.
std::string mark_of(int32_t id) {
  std::string mark(1, static_cast<char>(kSpecialByte));
  for (int shift = 16; shift >= 0; shift -= 8) mark += static_cast<char>((id >> shift) & 0xFF);
  return mark;
}

}  // namespace

TokenTrie::TokenTrie(std::vector<Token> tokens, std::vector<int32_t> end_tokens) : end_tokens_(std::move(end_tokens)) {
  std::sort(end_tokens_.begin(), end_tokens_.end());
  for (Token& token : tokens) {
    if (!token.special || token.bytes.empty()) continue;
    specials_.emplace_back(token.bytes, token.id);
    token.bytes = mark_of(token.id);
  }
  std::sort(specials_.begin(), specials_.end(),
            [](const auto& a, const auto& b) { return a.first.size() > b.first.size(); });
  size_t total = 0;
  for (const Token& token : tokens) {
    CHECK(token.id >= 0 && token.bytes.size() <= kMostBytes, "id={} bytes={}", token.id, token.bytes.size());
    highest_id_ = std::max(highest_id_, token.id);
    total += token.bytes.size();
  }
  text_.reserve(total);
  place_.resize(static_cast<size_t>(highest_id_ + 1));
  std::vector<std::pair<std::string_view, int32_t>> sorted;
  sorted.reserve(tokens.size());
  for (const Token& token : tokens) {
    // A text that is not UTF-8 could be taken for a mark; no text of a grammar begins so.
    if (token.bytes.empty() || is_end(token.id)) continue;
    if (!token.special && static_cast<uint8_t>(token.bytes[0]) == kSpecialByte) continue;
    place_[static_cast<size_t>(token.id)] = {static_cast<uint32_t>(text_.size()),
                                             static_cast<uint32_t>(token.bytes.size())};
    text_ += token.bytes;
    sorted.emplace_back(bytes(token.id), token.id);
  }
  std::sort(sorted.begin(), sorted.end());
  lay_out(sorted);
}

void TokenTrie::lay_out(const std::vector<std::pair<std::string_view, int32_t>>& sorted) {
  std::vector<uint32_t> path{0};  // nodes of the token before, by depth
  const auto add = [&](uint8_t byte) {
    const auto node = static_cast<uint32_t>(byte_.size());
    parent_.push_back(path.back());
    depth_.push_back(static_cast<uint16_t>(path.size()));
    byte_.push_back(byte);
    skip_.push_back(0);
    first_token_.push_back(static_cast<uint32_t>(tokens_.size()));
    path.push_back(node);
  };
  byte_.push_back(0);
  depth_.push_back(0);
  parent_.push_back(0);
  skip_.push_back(0);
  first_token_.push_back(0);
  std::string_view before;
  for (const auto& [text, id] : sorted) {
    const size_t shared = std::mismatch(text.begin(), text.end(), before.begin(), before.end()).first - text.begin();
    for (; path.size() > shared + 1; path.pop_back()) skip_[path.back()] = nodes();
    for (size_t i = shared; i < text.size(); ++i) add(static_cast<uint8_t>(text[i]));
    tokens_.push_back(id);
    most_bytes_ = std::max(most_bytes_, static_cast<uint32_t>(text.size()));
    before = text;
  }
  for (const uint32_t node : path) skip_[node] = nodes();
  first_token_.push_back(static_cast<uint32_t>(tokens_.size()));

  first_by_byte_.assign(257, 0);
  for (uint32_t node = 1; node < nodes(); ++node) ++first_by_byte_[byte_[node] + 1];
  for (int byte = 0; byte < 256; ++byte) first_by_byte_[byte + 1] += first_by_byte_[byte];
  by_byte_.resize(nodes() - 1);
  std::vector<uint32_t> next = first_by_byte_;
  for (uint32_t node = 1; node < nodes(); ++node) by_byte_[next[byte_[node]]++] = node;
}

std::shared_ptr<const TokenTrie> TokenTrie::of(const Tokenizer& tokenizer, std::vector<int32_t> end_tokens) {
  std::vector<Token> tokens;
  for (int32_t id = 0; id < tokenizer.size(); ++id) {
    if (!tokenizer.has(id)) continue;
    const bool special = tokenizer.is_special(id);
    tokens.push_back({id, std::string(special ? tokenizer.token(id) : tokenizer.piece(id)), special});
  }
  return std::make_shared<const TokenTrie>(std::move(tokens), std::move(end_tokens));
}

bool TokenTrie::is_end(int32_t id) const { return std::binary_search(end_tokens_.begin(), end_tokens_.end(), id); }

std::string_view TokenTrie::bytes(int32_t id) const {
  if (id < 0 || id > highest_id_) return {};
  const auto [begin, size] = place_[static_cast<size_t>(id)];
  return std::string_view(text_).substr(begin, size);
}

std::string TokenTrie::mark_specials(std::string_view text) const {
  std::string marked;
  for (size_t at = 0; at < text.size();) {
    const auto found = std::find_if(specials_.begin(), specials_.end(), [&](const auto& special) {
      return text.substr(at, special.first.size()) == special.first;
    });
    if (found == specials_.end()) {
      marked += text[at++];
    } else {
      marked += mark_of(found->second);
      at += found->first.size();
    }
  }
  return marked;
}

}  // namespace braid
