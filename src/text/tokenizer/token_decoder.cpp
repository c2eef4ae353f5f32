// SPDX-License-Identifier: Apache-2.0
#include "text/tokenizer/token_decoder.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "base/error.h"
#include "base/utf8.h"
#include "text/tokenizer/byte_alphabet.h"
#include "text/tokenizer/pre_tokenizer.h"

namespace braid {
namespace {

constexpr std::string_view kUnreadable = "\xEF\xBF\xBD";  // U+FFFD

std::optional<char> byte_of(std::string_view token) {
  if (token.size() != 6 || !token.starts_with("<0x") || token[5] != '>') return std::nullopt;
  int value = 0;
  for (const char c : token.substr(3, 2)) {
    const bool digit = c >= '0' && c <= '9', upper = c >= 'A' && c <= 'F', lower = c >= 'a' && c <= 'f';
    if (!digit && !upper && !lower) return std::nullopt;
    value = value * 16 + (digit ? c - '0' : upper ? c - 'A' + 10 : c - 'a' + 10);
  }
  return static_cast<char>(value);
}

std::string byte_level_bytes(std::string_view token) { return bytes_of_characters(token).value_or(std::string(token)); }

std::string replaced(std::string_view text, const ReplaceLiteral& replace) {
  std::string out;
  size_t at = 0;
  for (size_t found; (found = text.find(replace.pattern, at)) != std::string_view::npos;) {
    out += text.substr(at, found - at);
    out += replace.content;
    at = found + replace.pattern.size();
  }
  out += text.substr(at);
  return out;
}

std::string_view stripped(std::string_view token, const StripEnds& ends) {
  for (int64_t i = 0; i < ends.start && token.starts_with(ends.content); ++i) token.remove_prefix(ends.content.size());
  for (int64_t i = 0; i < ends.stop && token.ends_with(ends.content); ++i) token.remove_suffix(ends.content.size());
  return token;
}

// How long the longest end of `text` is that `pattern` could start with, without being all of it.
size_t possible_start(std::string_view text, std::string_view pattern) {
  for (size_t length = std::min(text.size(), pattern.size() - 1); length > 0; --length) {
    if (text.ends_with(pattern.substr(0, length))) return length;
  }
  return 0;
}

}  // namespace

// One stage at work: where it keeps its state, and where its results go.
struct TokenDecoder::Place {
  const TokenDecoder& decoder;
  size_t index;
  State& state;
  std::string& out;

  bool fused() const { return decoder.steps_[index].fused; }
  StageState& own() const { return state[index]; }
  void pass(std::string_view token) const { decoder.feed(index + 1, token, state, out); }

  // A run of byte tokens has ended: it is text as a whole, or one unreadable character for each byte.
  void pass_bytes() const {
    const std::string bytes = std::exchange(own().held, {});
    if (is_utf8(bytes)) {
      if (!bytes.empty()) pass(bytes);
    } else {
      for (size_t i = 0; i < bytes.size(); ++i) pass(kUnreadable);
    }
  }
};

// Gives a stage one token, or one more part of the fused token.
struct TokenDecoder::Feed {
  Place at;
  std::string_view token;

  void operator()(const DecodeBytes&) const {
    std::string& held = at.own().held;
    held += byte_level_bytes(token);
    const size_t ready = held.size() - incomplete_utf8_tail(held);
    const std::string text = to_valid_utf8(std::string_view(held).substr(0, ready));
    held.erase(0, ready);
    at.pass(text);
  }
  void operator()(const ByteFallback&) const {
    if (const auto byte = byte_of(token)) {
      at.own().held += *byte;
    } else {
      at.pass_bytes();
      at.pass(token);
    }
  }
  void operator()(const FuseTokens&) const { at.pass(token); }
  void operator()(const SpaceBetween&) const {
    at.pass(at.own().seen++ == 0 ? std::string(token) : " " + std::string(token));
  }
  void operator()(const ReplaceLiteral& replace) const {
    if (!at.fused()) return at.pass(replaced(token, replace));
    std::string& held = at.own().held;
    held += token;
    size_t settled = 0;
    for (size_t found; (found = held.find(replace.pattern, settled)) != std::string::npos;) {
      settled = found + replace.pattern.size();
    }
    const size_t ready = held.size() - possible_start(std::string_view(held).substr(settled), replace.pattern);
    const std::string text = replaced(std::string_view(held).substr(0, ready), replace);
    held.erase(0, ready);
    at.pass(text);
  }
  void operator()(const StripEnds& ends) const {
    if (!at.fused()) return at.pass(stripped(token, ends));
    StageState& own = at.own();
    std::string text = std::exchange(own.held, {}) + std::string(token);
    while (!own.started && own.seen < ends.start && text.starts_with(ends.content)) {
      text.erase(0, ends.content.size());
      ++own.seen;
    }
    own.started = own.started || !text.empty();
    const std::string_view ready = stripped(text, {.content = ends.content, .stop = ends.stop});
    own.held = text.substr(ready.size());
    at.pass(ready);
  }
  void operator()(const MetaspaceToSpace& space) const {
    const bool first = at.fused() || at.own().seen++ == 0;
    at.pass(replaced(token, {.pattern = space.mark, .content = first && space.drops_first ? "" : " "}));
  }
};

// Makes a stage give what it holds back.
struct TokenDecoder::Drain {
  Place at;

  void operator()(const DecodeBytes&) const { at.pass(to_valid_utf8(std::exchange(at.own().held, {}))); }
  void operator()(const ByteFallback&) const { at.pass_bytes(); }
  void operator()(const ReplaceLiteral&) const {
    if (at.fused()) at.pass(std::exchange(at.own().held, {}));
  }
  void operator()(const StripEnds&) const { at.own().held.clear(); }
  void operator()(const FuseTokens&) const {}
  void operator()(const SpaceBetween&) const {}
  void operator()(const MetaspaceToSpace&) const {}
};

TokenDecoder::TokenDecoder(const JsonPlace& place) {
  if (place.is_null()) {
    append(SpaceBetween{}, place);
  } else {
    read(place);
  }
}

void TokenDecoder::read(const JsonPlace& place) {
  const std::string& type = place.at("type").text();
  const auto character = [&] {
    const JsonPlace content = place.at("content");
    const std::string& text = content.text();
    if (text.empty() || decode_utf8(text, 0).bytes != text.size()) content.refuse("expected one character");
    return text;
  };
  if (type == "Sequence") {
    for (const JsonPlace& stage : place.at("decoders").elements()) read(stage);
  } else if (type == "ByteLevel") {
    append(DecodeBytes{}, place);
  } else if (type == "ByteFallback") {
    append(ByteFallback{}, place);
  } else if (type == "Fuse") {
    append(FuseTokens{}, place);
  } else if (type == "Replace") {
    const JsonPlace pattern = place.at("pattern");
    if (!pattern.is_object() || !pattern.has("String") || pattern.at("String").text().empty()) {
      pattern.refuse("a decoder replaces strings only, and none that is empty");
    }
    append(ReplaceLiteral{pattern.at("String").text(), place.at("content").text()}, place);
  } else if (type == "Strip") {
    append(StripEnds{character(), place.at("start").integer(), place.at("stop").integer()}, place);
  } else if (type == "Metaspace") {
    MetaspaceRule rule = read_metaspace(place);
    append(MetaspaceToSpace{std::move(rule.replacement), rule.scheme != PrependScheme::Never}, place);
  } else {
    place.at("type").refuse("unknown decoder '" + type + "'");
  }
}

void TokenDecoder::append(DecoderStage stage, const JsonPlace& place) {
  const bool bytes = std::holds_alternative<DecodeBytes>(stage);
  if (fused_ && (bytes || std::holds_alternative<ByteFallback>(stage))) {
    place.refuse("this decoder needs tokens, but the one before it makes one text of them");
  }
  steps_.push_back({std::move(stage), fused_});
  fused_ = fused_ || bytes || std::holds_alternative<FuseTokens>(steps_.back().stage);
}

void TokenDecoder::feed(size_t index, std::string_view token, State& state, std::string& out) const {
  if (index == steps_.size()) {
    out += token;
  } else {
    std::visit(Feed{{*this, index, state, out}, token}, steps_[index].stage);
  }
}

void TokenDecoder::push(std::string_view token, State& state, std::string& out) const { feed(0, token, state, out); }

void TokenDecoder::finish(State& state, std::string& out) const {
  for (size_t i = 0; i < steps_.size(); ++i) std::visit(Drain{{*this, i, state, out}}, steps_[i].stage);
}

std::string TokenDecoder::bytes_of(std::string_view token) const {
  std::string bytes(token);
  for (const auto& [stage, fused] : steps_) {
    if (fused) break;
    if (std::holds_alternative<DecodeBytes>(stage)) return byte_level_bytes(bytes);
    if (std::holds_alternative<SpaceBetween>(stage)) return " " + bytes;
    if (std::holds_alternative<ByteFallback>(stage) && byte_of(bytes)) return {*byte_of(bytes)};
    if (const auto* replace = std::get_if<ReplaceLiteral>(&stage)) bytes = replaced(bytes, *replace);
    if (const auto* ends = std::get_if<StripEnds>(&stage)) bytes = std::string(stripped(bytes, *ends));
    if (const auto* space = std::get_if<MetaspaceToSpace>(&stage)) bytes = replaced(bytes, {space->mark, " "});
  }
  return bytes;
}

}  // namespace braid
