// SPDX-License-Identifier: Apache-2.0
#include "text/tokenizer/vocabulary.h"

#include <functional>

#include "base/error.h"

namespace braid {

size_t Vocabulary::slot_of(std::string_view token) const {
  const size_t mask = slots_.size() - 1;
  size_t slot = std::hash<std::string_view>{}(token)&mask;
  while (slots_[slot] >= 0 && text(entries_[static_cast<size_t>(slots_[slot])]) != token) slot = (slot + 1) & mask;
  return slot;
}

void Vocabulary::grow() {
  slots_.assign(slots_.empty() ? 1024 : slots_.size() * 2, -1);
  for (size_t i = 0; i < entries_.size(); ++i) slots_[slot_of(text(entries_[i]))] = static_cast<int32_t>(i);
}

void Vocabulary::add(std::string_view token, int64_t id) {
  if (id < 0 || id > kMaxTokenId) fail("the id of token '{}' is {}, outside 0..{}", token, id, kMaxTokenId);
  if (token.size() > UINT32_MAX) fail("a token of {} bytes is too long", token.size());
  if (entries_.size() * 2 >= slots_.size()) grow();
  const size_t slot = slot_of(token);
  if (slots_[slot] < 0) {
    slots_[slot] = static_cast<int32_t>(entries_.size());
    entries_.push_back({.begin = text_.size(), .length = static_cast<uint32_t>(token.size()), .id = -1});
    text_ += token;
  }
  Entry& entry = entries_[static_cast<size_t>(slots_[slot])];
  if (entry.id >= 0 && entry_of_id_[static_cast<size_t>(entry.id)] == slots_[slot]) {
    entry_of_id_[static_cast<size_t>(entry.id)] = -1;
  }
  entry.id = static_cast<int32_t>(id);
  if (id >= size()) entry_of_id_.resize(static_cast<size_t>(id) + 1, -1);
  entry_of_id_[static_cast<size_t>(id)] = slots_[slot];
}

int32_t Vocabulary::find(std::string_view token) const {
  if (slots_.empty()) return -1;
  const int32_t entry = slots_[slot_of(token)];
  return entry < 0 ? -1 : entries_[static_cast<size_t>(entry)].id;
}

std::string_view Vocabulary::token(int32_t id) const {
  CHECK(has(id), "id={}", id);
  return text(entries_[static_cast<size_t>(entry_of_id_[static_cast<size_t>(id)])]);
}

}  // namespace braid
