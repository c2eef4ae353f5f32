// SPDX-License-Identifier: Apache-2.0
#include "text/tokenizer/normalizer.h"

#include <utility>

#include "base/error.h"
#include "base/utf8.h"
#include "text/tokenizer/byte_alphabet.h"

namespace braid {
namespace {

template <typename Append>
std::string each_character(std::string_view text, Append append) {
  std::string out;
  out.reserve(text.size());
  for (size_t at = 0; at < text.size();) {
    const Utf8Char c = decode_utf8(text, at);
    at += c.bytes;
    append(out, c.code);
  }
  return out;
}

std::string stripped(const std::string& text, const StripSpace& sides) {
  size_t begin = text.size(), end = 0;  // the first and the end of the last character that is no space
  for (size_t at = 0; at < text.size();) {
    const Utf8Char c = decode_utf8(text, at);
    if (!is_space(c.code)) {
      begin = std::min(begin, at);
      end = at + c.bytes;
    }
    at += c.bytes;
  }
  if (begin == text.size()) return sides.left || sides.right ? "" : text;
  if (!sides.left) begin = 0;
  if (!sides.right) end = text.size();
  return text.substr(begin, end - begin);
}

struct Apply {
  std::string text;
  MatchSpace& space;

  std::string operator()(NormalForm form) const { return normalized(text, form); }
  std::string operator()(const ReplaceMatches& replace) const {
    std::vector<Stretch> cover;
    replace.pattern.cover(text, space, cover);
    std::string out;
    for (const Stretch& stretch : cover) {
      if (stretch.matched) {
        out += replace.content;
      } else {
        out.append(text, stretch.span.begin, stretch.span.end - stretch.span.begin);
      }
    }
    return out;
  }
  std::string operator()(const PrependText& prepend) const { return text.empty() ? text : prepend.text + text; }
  std::string operator()(const StripSpace& sides) const { return stripped(text, sides); }
  std::string operator()(const Lowercase&) const { return each_character(text, append_lowercase); }
  std::string operator()(const StripMarks&) const {
    return each_character(text, [](std::string& out, uint32_t code) {
      if (!is_mark(code)) append_utf8(out, code);
    });
  }
  std::string operator()(const WriteBytes&) const {
    std::string out;
    append_byte_characters(out, text);
    return out;
  }
};

}  // namespace

Pattern read_pattern(const JsonPlace& place) {
  return with_context(place.path(), [&] {
    if (place.is_object() && place.has("Regex")) return Pattern::regex(place.at("Regex").text());
    if (place.is_object() && place.has("String")) return Pattern::literal(place.at("String").text());
    fail("expected {{\"Regex\": ...}} or {{\"String\": ...}}");
  });
}

Normalizer::Normalizer(const JsonPlace& place) {
  if (!place.is_null()) read(place);
}

void Normalizer::read(const JsonPlace& place) {
  const std::string& type = place.at("type").text();
  if (type == "Sequence") {
    for (const JsonPlace& step : place.at("normalizers").elements()) read(step);
  } else if (type == "NFC") {
    steps_.push_back(NormalForm::Nfc);
  } else if (type == "NFD") {
    steps_.push_back(NormalForm::Nfd);
  } else if (type == "NFKC") {
    steps_.push_back(NormalForm::Nfkc);
  } else if (type == "NFKD") {
    steps_.push_back(NormalForm::Nfkd);
  } else if (type == "Replace") {
    steps_.push_back(ReplaceMatches{read_pattern(place.at("pattern")), place.at("content").text()});
  } else if (type == "Prepend") {
    steps_.push_back(PrependText{place.at("prepend").text()});
  } else if (type == "Strip") {
    steps_.push_back(StripSpace{place.at("strip_left").boolean(), place.at("strip_right").boolean()});
  } else if (type == "Lowercase") {
    steps_.push_back(Lowercase{});
  } else if (type == "StripAccents") {
    steps_.push_back(StripMarks{});
  } else if (type == "ByteLevel") {
    steps_.push_back(WriteBytes{});
  } else {
    place.at("type").refuse("unknown normalizer '" + type + "'");
  }
}

std::string Normalizer::apply(std::string text, MatchSpace& space) const {
  for (const NormalizerStep& step : steps_) text = std::visit(Apply{std::move(text), space}, step);
  return text;
}

}  // namespace braid
