// SPDX-License-Identifier: Apache-2.0
#include "text/tokenizer/byte_pair.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <functional>

#include "base/error.h"
#include "base/utf8.h"

namespace braid {
namespace {

constexpr size_t kKnownWords = 8192;  // about 1 MB a thread

uint64_t pair_of(int32_t left, int32_t right) {
  return uint64_t{static_cast<uint32_t>(left)} << 32 | static_cast<uint32_t>(right);
}

// Best first: the lowest rank, of equal ones the leftmost.
constexpr auto kWorse = [](const auto& a, const auto& b) {
  return a.rank != b.rank ? a.rank > b.rank : a.place > b.place;
};

void refuse_affix(const JsonPlace& place, const std::string& key) {
  if (!place.text_or(key, "").empty()) place.at(key).refuse("is not supported");
}

MergeTable merge_table(const std::vector<MergePair>& merges, const Vocabulary& vocabulary) {
  MergeTable table(merges.size());
  std::string joined;
  for (size_t rank = 0; rank < merges.size(); ++rank) {
    const auto id = [&](const std::string& token) {
      const int32_t found = vocabulary.find(token);
      if (found < 0) fail("model.merges[{}]: '{}' is not in the vocabulary", rank, token);
      return found;
    };
    joined.assign(merges[rank].left).append(merges[rank].right);
    const int32_t left = id(merges[rank].left), right = id(merges[rank].right);
    table.set(left, right, {static_cast<int32_t>(rank), id(joined)});
  }
  return table;
}

}  // namespace

MergeTable::MergeTable(size_t expected) {
  const size_t size = std::bit_ceil(std::max<size_t>(16, expected * 2));
  slots_.resize(size);
  shift_ = 64 - std::countr_zero(size);
}

size_t MergeTable::slot_of(uint64_t pair) const {
  size_t slot = static_cast<size_t>((pair * 0x9E3779B97F4A7C15u) >> shift_);
  while (slots_[slot].pair != pair && slots_[slot].pair != UINT64_MAX) slot = (slot + 1) & (slots_.size() - 1);
  return slot;
}

void MergeTable::set(int32_t left, int32_t right, Merge merge) {
  const uint64_t pair = pair_of(left, right);
  slots_[slot_of(pair)] = {pair, merge};
}

Merge MergeTable::find(int32_t left, int32_t right) const { return slots_[slot_of(pair_of(left, right))].merge; }

BytePairSpace::BytePairSpace() : known_(kKnownWords) {}

BytePairModel::BytePairModel(const JsonPlace& place, TokenizerFile& file) {
  const std::string type = place.text_or("type", file.has_merges ? "BPE" : "none");
  if (type != "BPE") fail("{}.type: the model '{}' is not supported, only BPE is", place.path(), type);
  if (!file.has_merges || !place.has("vocab")) place.refuse("a BPE model needs a vocab object and a merges array");
  if (place.has("dropout") && place.at("dropout").number() != 0) place.at("dropout").refuse("is not supported");
  refuse_affix(place, "continuing_subword_prefix");
  refuse_affix(place, "end_of_word_suffix");
  ignore_merges_ = place.boolean_or("ignore_merges", false);
  fuse_unknown_ = place.boolean_or("fuse_unk", false);
  byte_fallback_ = place.boolean_or("byte_fallback", false);
  has_unknown_ = place.has("unk_token");
  unknown_ = place.text_or("unk_token", "");
  vocabulary_ = std::move(file.vocabulary);
  merges_ = merge_table(file.merges, vocabulary_);
  for (uint32_t code = 0; code < kDirect; ++code) {
    std::string character;
    append_utf8(character, code);
    direct_[code] = vocabulary_.find(character);
  }
  for (uint32_t byte = 0; byte < 256; ++byte) byte_ids_[byte] = vocabulary_.find(fmt::format("<0x{:02X}>", byte));
}

int32_t BytePairModel::id_of_character(std::string_view character, uint32_t code) const {
  return code < kDirect ? direct_[code] : vocabulary_.find(character);
}

int32_t BytePairModel::unknown_id() const {
  const int32_t id = vocabulary_.find(unknown_);
  if (id < 0)
    fail("the text has a character without a token, and model.unk_token '{}' is not in the vocabulary", unknown_);
  return id;
}

void BytePairModel::start_symbols(std::string_view piece, std::vector<BytePairSpace::Symbol>& symbols) const {
  symbols.clear();
  const auto add = [&](int32_t id) {
    const auto place = static_cast<int32_t>(symbols.size());
    symbols.push_back({.id = id, .previous = place - 1, .next = place + 1, .gone = false});
  };
  bool unknown = false;  // an unknown character waits to be added, since the next one may join it
  for (size_t at = 0; at < piece.size();) {
    const Utf8Char c = decode_utf8(piece, at);
    const std::string_view character = piece.substr(at, c.bytes);
    at += c.bytes;
    if (const int32_t id = id_of_character(character, c.code); id >= 0) {
      if (unknown) add(unknown_id());
      unknown = false;
      add(id);
      continue;
    }
    const auto byte_id = [&](char byte) { return byte_ids_[static_cast<uint8_t>(byte)]; };
    if (byte_fallback_ && std::all_of(character.begin(), character.end(), [&](char b) { return byte_id(b) >= 0; })) {
      // A waiting unknown character stays behind these bytes, as in the original library.
      for (const char byte : character) add(byte_id(byte));
      continue;
    }
    if (!has_unknown_) continue;
    if (unknown && !fuse_unknown_) add(unknown_id());
    unknown = true;
  }
  if (unknown) add(unknown_id());
  if (!symbols.empty()) symbols.back().next = -1;
}

bool BytePairModel::loses(std::string_view character) const {
  if (has_unknown_) return false;
  std::vector<BytePairSpace::Symbol> symbols;
  start_symbols(character, symbols);
  return symbols.empty();
}

void BytePairModel::offer(BytePairSpace& space, int32_t left, int32_t right) const {
  const auto id = [&](int32_t place) { return space.symbols_[static_cast<size_t>(place)].id; };
  const Merge merge = merges_.find(id(left), id(right));
  if (merge.rank < 0) return;
  space.heap_.push_back({merge.rank, left, merge.id});
  std::push_heap(space.heap_.begin(), space.heap_.end(), kWorse);
}

void BytePairModel::join_symbols(BytePairSpace& space) const {
  auto& symbols = space.symbols_;
  auto& heap = space.heap_;
  heap.clear();
  for (size_t i = 0; i + 1 < symbols.size(); ++i) {
    const Merge merge = merges_.find(symbols[i].id, symbols[i + 1].id);
    if (merge.rank >= 0) heap.push_back({merge.rank, static_cast<int32_t>(i), merge.id});
  }
  std::make_heap(heap.begin(), heap.end(), kWorse);
  while (!heap.empty()) {
    const BytePairSpace::Candidate best = heap.front();
    std::pop_heap(heap.begin(), heap.end(), kWorse);
    heap.pop_back();
    auto& left = symbols[static_cast<size_t>(best.place)];
    if (left.gone || left.next < 0) continue;
    auto& right = symbols[static_cast<size_t>(left.next)];
    if (merges_.find(left.id, right.id).id != best.id) continue;  // joined otherwise since it was offered
    left.id = best.id;
    left.next = right.next;
    right.gone = true;
    if (left.next >= 0) symbols[static_cast<size_t>(left.next)].previous = best.place;
    if (left.previous >= 0) offer(space, left.previous, best.place);
    if (left.next >= 0) offer(space, best.place, left.next);
  }
}

void BytePairModel::encode_word(std::string_view piece, BytePairSpace& space, std::vector<int32_t>& ids) const {
  if (ignore_merges_) {
    if (const int32_t id = vocabulary_.find(piece); id >= 0) return ids.push_back(id);
  }
  start_symbols(piece, space.symbols_);
  join_symbols(space);
  for (const auto& symbol : space.symbols_) {
    if (!symbol.gone) ids.push_back(symbol.id);
  }
}

void BytePairModel::encode(std::string_view piece, BytePairSpace& space, std::vector<int32_t>& ids) const {
  if (piece.empty()) return;
  using Known = BytePairSpace::Known;
  if (piece.size() > INT32_MAX) fail("a piece of {} bytes is too long", piece.size());
  if (piece.size() > BytePairSpace::kKnownBytes) return encode_word(piece, space, ids);
  const uint64_t hash = std::hash<std::string_view>{}(piece);
  Known& known = space.known_[hash % kKnownWords];
  if (known.hash == hash && known.length == piece.size() &&
      std::memcmp(known.word.data(), piece.data(), piece.size()) == 0) {
    ids.insert(ids.end(), known.ids.begin(), known.ids.begin() + known.count);
    return;
  }
  const size_t before = ids.size();
  encode_word(piece, space, ids);
  if (ids.size() - before > known.ids.size()) return;
  known.hash = hash;
  known.length = static_cast<uint8_t>(piece.size());
  known.count = static_cast<uint8_t>(ids.size() - before);
  std::copy(piece.begin(), piece.end(), known.word.begin());
  std::copy(ids.begin() + static_cast<std::ptrdiff_t>(before), ids.end(), known.ids.begin());
}

}  // namespace braid
