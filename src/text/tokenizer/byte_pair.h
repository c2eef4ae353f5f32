// BytePairModel: turns a piece of text into token ids by joining the pair of neighbours with the best rank, again and
// again.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "text/tokenizer/tokenizer_file.h"
#include "text/tokenizer/vocabulary.h"

namespace braid {

// What a pair of neighbouring tokens becomes.
struct Merge {
  int32_t rank = -1;  // lower is joined earlier; -1: the pair is not joined
  int32_t id = -1;
};

// Merges by pair of ids: a hash table with open addressing.
class MergeTable {
 public:
  MergeTable() : MergeTable(0) {}
  explicit MergeTable(size_t expected);
  // A pair that is there already gets the new merge. No more than `expected` different pairs.
  void set(int32_t left, int32_t right, Merge merge);
  Merge find(int32_t left, int32_t right) const;

 private:
  struct Slot {
    uint64_t pair = UINT64_MAX;
    Merge merge;
  };
  size_t slot_of(uint64_t pair) const;
  std::vector<Slot> slots_;
  int shift_ = 0;
};

// The memory of one thread: working space, and the ids of words met before (a word that meets another one's place in
// the table takes it).
class BytePairSpace {
 public:
  BytePairSpace();

 private:
  friend class BytePairModel;
  struct Symbol {
    int32_t id, previous, next;  // places in the word, -1: none
    bool gone;
  };
  struct Candidate {
    int32_t rank, place, id;
  };
  static constexpr size_t kKnownBytes = 46, kKnownIds = 10;
  struct Known {
    uint64_t hash = 0;
    uint8_t length = 0, count = 0;  // length 0: free
    std::array<char, kKnownBytes> word;
    std::array<int32_t, kKnownIds> ids;
  };

  std::vector<Symbol> symbols_;
  std::vector<Candidate> heap_;
  std::vector<Known> known_;
};

class BytePairModel {
 public:
  BytePairModel() = default;
  // Reads the "model" of a tokenizer.json; takes vocabulary and merges out of `file`. What is not a plain BPE model is
  // an Input error that names the place.
  BytePairModel(const JsonPlace& place, TokenizerFile& file);

  const Vocabulary& vocabulary() const { return vocabulary_; }

  // Appends the ids of one piece. Its cost grows with n log n.
  void encode(std::string_view piece, BytePairSpace& space, std::vector<int32_t>& ids) const;
  // Whether nothing stands for this character.
  bool loses(std::string_view character) const;

 private:
  void encode_word(std::string_view piece, BytePairSpace& space, std::vector<int32_t>& ids) const;
  void start_symbols(std::string_view piece, std::vector<BytePairSpace::Symbol>& symbols) const;
  void join_symbols(BytePairSpace& space) const;
  void offer(BytePairSpace& space, int32_t left, int32_t right) const;
  int32_t id_of_character(std::string_view character, uint32_t code) const;
  int32_t unknown_id() const;

  static constexpr size_t kDirect = 0x200;

  Vocabulary vocabulary_;
  MergeTable merges_;
  std::array<int32_t, kDirect> direct_{};  // ids of the first characters of Unicode, -1: no token
  bool ignore_merges_ = false;             // a piece that is a token is that token
  bool fuse_unknown_ = false;              // neighbouring unknown characters become one token
  bool byte_fallback_ = false;             // unknown characters become tokens of their bytes
  std::array<int32_t, 256> byte_ids_{};    // of "<0x00>" .. "<0xFF>", -1: no token
  std::string unknown_;                    // the token of unknown characters, which otherwise vanish
  bool has_unknown_ = false;
};

}  // namespace braid
