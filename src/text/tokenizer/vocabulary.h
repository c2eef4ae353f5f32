// Vocabulary: the strings of tokens and their ids, both ways.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace braid {

// Ids are looked up in tables as long as the highest id, so a file cannot name one beyond this.
constexpr int32_t kMaxTokenId = (1 << 22) - 1;

class Vocabulary {
 public:
  // A string that is there already gets the new id. An id outside 0..kMaxTokenId is an Input error.
  void add(std::string_view token, int64_t id);

  // The id of `token`, or -1.
  int32_t find(std::string_view token) const;

  bool has(int32_t id) const { return id >= 0 && id < size() && entry_of_id_[static_cast<size_t>(id)] >= 0; }

  // The string of an id that is there; the view lives until the next add().
  std::string_view token(int32_t id) const;

  // The highest id + 1.
  int32_t size() const { return static_cast<int32_t>(entry_of_id_.size()); }

  // How many different strings there are.
  size_t count() const { return entries_.size(); }

 private:
  struct Entry {
    size_t begin;
    uint32_t length;
    int32_t id;
  };

  std::string_view text(const Entry& entry) const { return std::string_view(text_).substr(entry.begin, entry.length); }
  size_t slot_of(std::string_view token) const;
  void grow();

  std::string text_;  // all strings, one after the other
  std::vector<Entry> entries_;
  std::vector<int32_t> slots_;        // open addressing over entries_, -1: free; its size is a power of two
  std::vector<int32_t> entry_of_id_;  // -1: no token has this id
};

}  // namespace braid
