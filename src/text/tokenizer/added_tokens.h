// AddedTokens: the tokens that are found in the text as they stand, before the model sees it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "text/tokenizer/normalizer.h"
#include "text/tokenizer/pattern.h"
#include "text/tokenizer/tokenizer_file.h"
#include "text/tokenizer/vocabulary.h"

namespace braid {

struct AddedToken {
  std::string content;
  std::string matched;  // what is looked for: the content, normalised if the token is
  int32_t id = -1;
  bool single_word = false;             // matches only where no letter touches it
  bool lstrip = false, rstrip = false;  // takes the spaces before, after it
  bool normalized = false;              // is looked for in the normalised text
  bool special = false;
};

// Finds the longest of a set of strings that starts at the leftmost place.
class StringFinder {
 public:
  void add(std::string_view text, int32_t value);

  struct Found {
    Span span;
    int32_t value = -1;  // -1: nothing found
  };
  Found find(std::string_view text, size_t from) const;

 private:
  struct Node {
    std::vector<std::pair<uint8_t, int32_t>> children;  // by byte
    int32_t value = -1;
  };
  int32_t child(int32_t node, uint8_t byte) const;
  std::vector<Node> nodes_;
  std::vector<int32_t> roots_;  // by first byte, -1: none; empty without strings
};

// A part of the text: an added token, or text still to be encoded (id -1).
struct Section {
  Span span;
  int32_t id = -1;
};

class AddedTokens {
 public:
  AddedTokens() = default;
  // Reads "added_tokens". A token that the model's vocabulary has keeps that id; the others are numbered on from the
  // end of the vocabulary, whatever "id" says (a difference is logged).
  AddedTokens(const JsonPlace& place, const Vocabulary& model, const Normalizer& normalizer);

  // By id; null if there is none.
  const AddedToken* find(int32_t id) const;
  // The id of a content, or -1.
  int32_t find(std::string_view content) const;
  std::vector<int32_t> ids() const;

  // Cuts text at the tokens that are looked for as they stand, or (`normalized`) in normalised text. Without `special`,
  // special tokens are left in the text.
  std::vector<Section> split(std::string_view text, bool normalized, bool special) const;

 private:
  void add(AddedToken token, int32_t id);

  std::vector<AddedToken> tokens_;
  std::unordered_map<int32_t, size_t> by_id_;
  std::unordered_map<std::string, size_t> by_content_;
  StringFinder plain_, normalized_;
};

}  // namespace braid
