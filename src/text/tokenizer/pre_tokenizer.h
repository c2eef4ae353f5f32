// PreTokenizer: cuts a normalised text into the pieces that the model encodes one by one.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "text/tokenizer/pattern.h"
#include "text/tokenizer/tokenizer_file.h"

namespace braid {

// Where a match of the cutting pattern goes.
enum class SplitBehavior { Removed, Isolated, MergedWithPrevious, MergedWithNext, Contiguous };
// Which pieces get the replacement character of Metaspace in front.
enum class PrependScheme { First, Never, Always };

struct SplitRule {
  Pattern pattern;
  SplitBehavior behavior = SplitBehavior::Isolated;
  bool invert = false;
};
struct ByteLevelRule {
  bool add_prefix_space = false;
  std::optional<Pattern> words;
};
struct DigitsRule {
  bool individual = false;
};
struct PunctuationRule {
  SplitBehavior behavior = SplitBehavior::Isolated;
};
struct MetaspaceRule {
  std::string replacement;
  PrependScheme scheme = PrependScheme::Always;
  bool split = true;
};
using PreTokenizerRule = std::variant<SplitRule, ByteLevelRule, DigitsRule, PunctuationRule, MetaspaceRule>;

// Pieces of a text: none is empty.
struct Pieces {
  std::string text;
  std::vector<Span> spans;
  bool at_start = false;  // the first piece starts where the whole input does
};

// The memory of one thread.
struct PreTokenizerSpace {
  MatchSpace match;
  std::vector<Stretch> cover;
  std::vector<Span> cuts;
  Pieces next;
};

class PreTokenizer {
 public:
  PreTokenizer() = default;
  // Reads the "pre_tokenizer" of a tokenizer.json; an unknown type is an Input error that names its place.
  explicit PreTokenizer(const JsonPlace& place);

  void apply(Pieces& pieces, PreTokenizerSpace& space) const;
  // Whether pieces come out as characters of the byte alphabet.
  bool writes_bytes() const;

 private:
  void read(const JsonPlace& place);
  std::vector<PreTokenizerRule> rules_;
};

// "replacement", "prepend_scheme", "add_prefix_space" and "split", which the decoder of the same name has, too.
MetaspaceRule read_metaspace(const JsonPlace& place);

// Replaces `cuts` with what `behavior` makes of `cover`: stretches in order, without the removed and the empty ones.
void cut(const std::vector<Stretch>& cover, SplitBehavior behavior, std::vector<Span>& cuts);

}  // namespace braid
