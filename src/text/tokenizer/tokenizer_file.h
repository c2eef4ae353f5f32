// TokenizerFile: what a tokenizer.json holds, with the large parts (vocabulary, merges) kept out of the JSON value.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/json_place.h"
#include "text/tokenizer/vocabulary.h"

namespace braid {

struct MergePair {
  std::string left, right;
};

struct TokenizerFile {
  Json rest;  // the document, with nothing in model.vocab ({}) and model.merges ([])
  Vocabulary vocabulary;
  std::vector<MergePair> merges;  // by rank; written as "a b" or as ["a", "b"]
  bool has_merges = false;        // an empty list counts, too
};

// Parses `text`. A fault is an Input error that says where: "not valid JSON ...", "model.merges[3]: ...".
TokenizerFile parse_tokenizer_file(std::string_view text);

}  // namespace braid
