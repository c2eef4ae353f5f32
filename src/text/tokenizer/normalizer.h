// Normalizer: what a tokenizer does to a text before it looks for tokens.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <variant>
#include <vector>

#include "text/tokenizer/pattern.h"
#include "text/tokenizer/tokenizer_file.h"
#include "text/tokenizer/unicode.h"

namespace braid {

struct ReplaceMatches {
  Pattern pattern;
  std::string content;
};
struct PrependText {
  std::string text;
};
struct StripSpace {
  bool left = false, right = false;
};
struct Lowercase {};
struct StripMarks {};
struct WriteBytes {};  // every byte as its character of the byte alphabet

using NormalizerStep =
    std::variant<NormalForm, ReplaceMatches, PrependText, StripSpace, Lowercase, StripMarks, WriteBytes>;

class Normalizer {
 public:
  Normalizer() = default;
  // Reads the "normalizer" of a tokenizer.json; an unknown type is an Input error that names its place.
  explicit Normalizer(const JsonPlace& place);

  bool changes_nothing() const { return steps_.empty(); }
  // `text` has to be valid UTF-8.
  std::string apply(std::string text, MatchSpace& space) const;

 private:
  void read(const JsonPlace& place);
  std::vector<NormalizerStep> steps_;
};

// The "pattern" of Replace and Split: {"Regex": "..."} or {"String": "..."}.
Pattern read_pattern(const JsonPlace& place);

}  // namespace braid
