// SPDX-License-Identifier: Apache-2.0
#include "text/tokenizer/pre_tokenizer.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/utf8.h"
#include "text/tokenizer/byte_alphabet.h"
#include "text/tokenizer/normalizer.h"
#include "text/tokenizer/unicode.h"

namespace braid {
namespace {

constexpr std::string_view kWords = R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

SplitBehavior read_behavior(const JsonPlace& place) {
  const std::string& name = place.text();
  if (name == "Removed") return SplitBehavior::Removed;
  if (name == "Isolated") return SplitBehavior::Isolated;
  if (name == "MergedWithPrevious") return SplitBehavior::MergedWithPrevious;
  if (name == "MergedWithNext") return SplitBehavior::MergedWithNext;
  if (name == "Contiguous") return SplitBehavior::Contiguous;
  place.refuse("unknown behavior '" + name + "'");
}

// Joins each match to its neighbour: the stretch before it, or (walking backwards) the one after it. Of touching
// matches only the first one walked over is joined.
template <typename Walk, typename Join>
void join_matches(Walk begin, Walk end, std::vector<Span>& cuts, Join join) {
  bool previous = false;
  for (auto stretch = begin; stretch != end; ++stretch) {
    if (stretch->matched && !previous && !cuts.empty()) {
      join(cuts.back(), stretch->span);
    } else {
      cuts.push_back(stretch->span);
    }
    previous = stretch->matched;
  }
}

// Applies one rule to the pieces.
struct Apply {
  Pieces& pieces;
  PreTokenizerSpace& space;

  std::string_view view(const Span& span) const {
    return std::string_view(pieces.text).substr(span.begin, span.end - span.begin);
  }

  // Cuts every piece: `cover` fills space.cover for a piece.
  template <typename Cover>
  void split(SplitBehavior behavior, Cover cover) const {
    std::vector<Span>& spans = space.next.spans;
    spans.clear();
    for (const Span& piece : pieces.spans) {
      cover(view(piece));
      cut(space.cover, behavior, space.cuts);
      for (const Span& part : space.cuts) spans.push_back({piece.begin + part.begin, piece.begin + part.end});
    }
    const auto start = [](const std::vector<Span>& list) { return list.empty() ? SIZE_MAX : list.front().begin; };
    pieces.at_start = pieces.at_start && start(spans) == start(pieces.spans);
    pieces.spans.swap(spans);
  }

  // Cuts where characters of a class begin and end; each character of the class is a match of its own.
  template <typename Class>
  void split_by_class(SplitBehavior behavior, Class is_in) const {
    split(behavior, [&](std::string_view text) {
      space.cover.clear();
      size_t covered = 0;
      for (size_t at = 0; at < text.size();) {
        const Utf8Char c = decode_utf8(text, at);
        if (is_in(c.code)) {
          if (covered < at) space.cover.push_back({.span = {covered, at}});
          covered = at + c.bytes;
          space.cover.push_back({.span = {at, covered}, .matched = true});
        }
        at += c.bytes;
      }
      if (covered < text.size()) space.cover.push_back({.span = {covered, text.size()}});
    });
  }

  // Rewrites every piece: `append(out, piece, first)` adds its new text to `out`.
  template <typename Append>
  void rewrite(Append append) const {
    Pieces& next = space.next;
    next.text.clear();
    next.spans.clear();
    for (const Span& piece : pieces.spans) {
      const size_t begin = next.text.size();
      append(next.text, view(piece), next.spans.empty());
      next.spans.push_back({begin, next.text.size()});
    }
    pieces.text.swap(next.text);
    pieces.spans.swap(next.spans);
  }

  void operator()(const SplitRule& rule) const {
    split(rule.behavior, [&](std::string_view text) {
      rule.pattern.cover(text, space.match, space.cover);
      if (!rule.invert) return;
      for (Stretch& stretch : space.cover) stretch.matched = !stretch.matched;
    });
  }

  void operator()(const ByteLevelRule& rule) const {
    if (rule.add_prefix_space) {
      rewrite([](std::string& out, std::string_view piece, bool) {
        if (!piece.starts_with(' ')) out += ' ';
        out += piece;
      });
    }
    if (rule.words) {
      split(SplitBehavior::Isolated, [&](std::string_view text) { rule.words->cover(text, space.match, space.cover); });
    }
    rewrite([](std::string& out, std::string_view piece, bool) { append_byte_characters(out, piece); });
  }

  void operator()(const DigitsRule& rule) const {
    split_by_class(rule.individual ? SplitBehavior::Isolated : SplitBehavior::Contiguous, is_number);
  }

  void operator()(const PunctuationRule& rule) const { split_by_class(rule.behavior, is_punctuation); }

  void operator()(const MetaspaceRule& rule) const {
    rewrite([&](std::string& out, std::string_view piece, bool first) {
      const bool wanted =
          rule.scheme == PrependScheme::Always || (rule.scheme == PrependScheme::First && first && pieces.at_start);
      if (wanted && !piece.starts_with(' ') && !piece.starts_with(rule.replacement)) out += rule.replacement;
      for (const char c : piece) {
        if (c == ' ') {
          out += rule.replacement;
        } else {
          out += c;
        }
      }
    });
    if (rule.split) {
      const uint32_t mark = decode_utf8(rule.replacement, 0).code;
      split_by_class(SplitBehavior::MergedWithNext, [&](uint32_t code) { return code == mark; });
    }
  }
};

}  // namespace

void cut(const std::vector<Stretch>& cover, SplitBehavior behavior, std::vector<Span>& cuts) {
  cuts.clear();
  switch (behavior) {
    case SplitBehavior::Removed:
      for (const Stretch& stretch : cover) {
        if (!stretch.matched) cuts.push_back(stretch.span);
      }
      break;
    case SplitBehavior::Isolated:
      for (const Stretch& stretch : cover) cuts.push_back(stretch.span);
      break;
    case SplitBehavior::Contiguous: {
      bool previous = false;
      for (const Stretch& stretch : cover) {
        if (stretch.matched == previous && !cuts.empty()) {
          cuts.back().end = stretch.span.end;
        } else {
          cuts.push_back(stretch.span);
        }
        previous = stretch.matched;
      }
      break;
    }
    case SplitBehavior::MergedWithPrevious:
      join_matches(cover.begin(), cover.end(), cuts, [](Span& kept, const Span& match) { kept.end = match.end; });
      break;
    case SplitBehavior::MergedWithNext:
      join_matches(cover.rbegin(), cover.rend(), cuts, [](Span& kept, const Span& match) { kept.begin = match.begin; });
      std::reverse(cuts.begin(), cuts.end());
      break;
  }
  std::erase_if(cuts, [](const Span& span) { return span.empty(); });
}

MetaspaceRule read_metaspace(const JsonPlace& place) {
  MetaspaceRule rule;
  const JsonPlace replacement = place.at("replacement");
  rule.replacement = replacement.text();
  if (rule.replacement.empty() || decode_utf8(rule.replacement, 0).bytes != rule.replacement.size()) {
    replacement.refuse("expected one character");
  }
  const std::string scheme = place.text_or("prepend_scheme", "always");
  if (scheme == "first") {
    rule.scheme = PrependScheme::First;
  } else if (scheme == "never") {
    rule.scheme = PrependScheme::Never;
  } else if (scheme != "always") {
    place.at("prepend_scheme").refuse("unknown scheme '" + scheme + "'");
  }
  if (!place.boolean_or("add_prefix_space", true) && rule.scheme != PrependScheme::Never) {
    place.at("add_prefix_space").refuse("does not agree with prepend_scheme");
  }
  rule.split = place.boolean_or("split", true);
  return rule;
}

PreTokenizer::PreTokenizer(const JsonPlace& place) {
  if (!place.is_null()) read(place);
}

bool PreTokenizer::writes_bytes() const {
  return std::ranges::any_of(rules_, [](const auto& rule) { return std::holds_alternative<ByteLevelRule>(rule); });
}

void PreTokenizer::read(const JsonPlace& place) {
  const std::string& type = place.at("type").text();
  if (type == "Sequence") {
    for (const JsonPlace& rule : place.at("pretokenizers").elements()) read(rule);
  } else if (type == "Split") {
    rules_.push_back(SplitRule{read_pattern(place.at("pattern")), read_behavior(place.at("behavior")),
                               place.at("invert").boolean()});
  } else if (type == "ByteLevel") {
    ByteLevelRule rule{.add_prefix_space = place.at("add_prefix_space").boolean()};
    if (place.boolean_or("use_regex", true)) rule.words = Pattern::regex(kWords);
    rules_.push_back(std::move(rule));
  } else if (type == "Digits") {
    rules_.push_back(DigitsRule{place.at("individual_digits").boolean()});
  } else if (type == "Punctuation") {
    const bool named = place.has("behavior");
    rules_.push_back(PunctuationRule{named ? read_behavior(place.at("behavior")) : SplitBehavior::Isolated});
  } else if (type == "Metaspace") {
    rules_.push_back(read_metaspace(place));
  } else {
    place.at("type").refuse("unknown pre-tokenizer '" + type + "'");
  }
}

void PreTokenizer::apply(Pieces& pieces, PreTokenizerSpace& space) const {
  for (const PreTokenizerRule& rule : rules_) std::visit(Apply{pieces, space}, rule);
}

}  // namespace braid
