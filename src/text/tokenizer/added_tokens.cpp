// SPDX-License-Identifier: Apache-2.0
#include "text/tokenizer/added_tokens.h"

#include <algorithm>
#include <utility>

#include "base/log.h"
#include "base/utf8.h"
#include "text/tokenizer/unicode.h"

namespace braid {
namespace {

// The start of the last character of a text that is not empty.
size_t last_character(std::string_view text) {
  size_t at = text.size() - 1;
  while (at > 0 && (static_cast<uint8_t>(text[at]) & 0xC0) == 0x80) --at;
  return at;
}

bool ends_with_word(std::string_view text) {
  return !text.empty() && is_word(decode_utf8(text, last_character(text)).code);
}

bool starts_with_word(std::string_view text) { return !text.empty() && is_word(decode_utf8(text, 0).code); }

// How long `text` is without the spaces at its end.
size_t length_without_spaces(std::string_view text) {
  while (!text.empty()) {
    const size_t at = last_character(text);
    if (!is_space(decode_utf8(text, at).code)) break;
    text = text.substr(0, at);
  }
  return text.size();
}

size_t leading_spaces(std::string_view text) {
  size_t at = 0;
  while (at < text.size()) {
    const Utf8Char c = decode_utf8(text, at);
    if (!is_space(c.code)) break;
    at += c.bytes;
  }
  return at;
}

AddedToken read_token(const JsonPlace& place) {
  return {.content = place.at("content").text(),
          .single_word = place.at("single_word").boolean(),
          .lstrip = place.at("lstrip").boolean(),
          .rstrip = place.at("rstrip").boolean(),
          .normalized = place.at("normalized").boolean(),
          .special = place.at("special").boolean()};
}

}  // namespace

int32_t StringFinder::child(int32_t node, uint8_t byte) const {
  const auto& children = nodes_[static_cast<size_t>(node)].children;
  const auto found = std::lower_bound(children.begin(), children.end(), std::pair<uint8_t, int32_t>{byte, -1});
  return found != children.end() && found->first == byte ? found->second : -1;
}

void StringFinder::add(std::string_view text, int32_t value) {
  if (text.empty()) return;
  const auto fresh = [&] {
    nodes_.emplace_back();
    return static_cast<int32_t>(nodes_.size() - 1);
  };
  if (roots_.empty()) roots_.assign(256, -1);
  int32_t& root = roots_[static_cast<uint8_t>(text[0])];
  if (root < 0) root = fresh();
  int32_t node = root;
  for (const char c : text.substr(1)) {
    const auto byte = static_cast<uint8_t>(c);
    int32_t next = child(node, byte);
    if (next < 0) {
      next = fresh();
      auto& children = nodes_[static_cast<size_t>(node)].children;
      const std::pair<uint8_t, int32_t> entry{byte, next};
      children.insert(std::lower_bound(children.begin(), children.end(), entry), entry);
    }
    node = next;
  }
  nodes_[static_cast<size_t>(node)].value = value;
}

StringFinder::Found StringFinder::find(std::string_view text, size_t from) const {
  if (roots_.empty()) return {};
  for (size_t begin = from; begin < text.size(); ++begin) {
    Found longest;
    int32_t node = roots_[static_cast<uint8_t>(text[begin])];
    for (size_t end = begin + 1; node >= 0; ++end) {
      const int32_t value = nodes_[static_cast<size_t>(node)].value;
      if (value >= 0) longest = {{begin, end}, value};
      if (end == text.size()) break;
      node = child(node, static_cast<uint8_t>(text[end]));
    }
    if (longest.value >= 0) return longest;
  }
  return {};
}

AddedTokens::AddedTokens(const JsonPlace& place, const Vocabulary& model, const Normalizer& normalizer) {
  MatchSpace space;
  auto next_id = static_cast<int64_t>(model.count());
  for (const JsonPlace& entry : place.elements()) {
    AddedToken token = read_token(entry);
    if (token.content.empty()) continue;
    const int64_t given = entry.at("id").integer();
    int64_t id = find(token.content);
    if (id < 0) id = model.find(token.content);
    if (id < 0) id = next_id++;
    if (id > kMaxTokenId) entry.refuse("more tokens than ids");
    if (id != given)
      log::warn("added token has another id than the file says token={} id={} says={}", token.content, id, given);
    token.matched = token.normalized ? normalizer.apply(token.content, space) : token.content;
    add(std::move(token), static_cast<int32_t>(id));
  }
  for (const AddedToken& token : tokens_) {
    if (find(token.id) != &token) continue;  // replaced by a later one with the same id
    (token.normalized ? normalized_ : plain_).add(token.matched, token.id);
  }
}

void AddedTokens::add(AddedToken token, int32_t id) {
  token.id = id;
  by_content_[token.content] = tokens_.size();
  by_id_[id] = tokens_.size();
  tokens_.push_back(std::move(token));
}

const AddedToken* AddedTokens::find(int32_t id) const {
  const auto found = by_id_.find(id);
  return found == by_id_.end() ? nullptr : &tokens_[found->second];
}

int32_t AddedTokens::find(std::string_view content) const {
  const auto found = by_content_.find(std::string(content));
  return found == by_content_.end() ? -1 : tokens_[found->second].id;
}

std::vector<int32_t> AddedTokens::ids() const {
  std::vector<int32_t> ids;
  for (const auto& [id, token] : by_id_) ids.push_back(id);
  std::sort(ids.begin(), ids.end());
  return ids;
}

std::vector<Section> AddedTokens::split(std::string_view text, bool normalized, bool special) const {
  std::vector<Section> sections;
  const StringFinder& finder = normalized ? normalized_ : plain_;
  size_t covered = 0;
  for (auto found = finder.find(text, 0); found.value >= 0; found = finder.find(text, found.span.end)) {
    const AddedToken& token = *find(found.value);
    Span span = found.span;
    if (token.special && !special) continue;
    const std::string_view before = text.substr(0, span.begin), after = text.substr(span.end);
    if (token.single_word && (ends_with_word(before) || starts_with_word(after))) continue;
    if (token.lstrip) span.begin = std::max(length_without_spaces(before), covered);
    if (token.rstrip) span.end += leading_spaces(after);
    if (covered < span.begin) sections.push_back({.span = {covered, span.begin}});
    // The spaces of the token before may have taken all of this one.
    if (span.begin < span.end) sections.push_back({.span = span, .id = token.id});
    covered = span.end;
  }
  if (covered < text.size()) sections.push_back({.span = {covered, text.size()}});
  return sections;
}

}  // namespace braid
