// TokenDecoder: turns the strings of tokens back into text, token by token as they come.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "text/tokenizer/tokenizer_file.h"

namespace braid {

struct DecodeBytes {};   // ByteLevel: characters of the byte alphabet to bytes, and those to characters
struct ByteFallback {};  // "<0x41>" to bytes, and runs of those to characters
struct FuseTokens {};    // all tokens become one
struct SpaceBetween {};  // no decoder: tokens with a space between them
struct ReplaceLiteral {
  std::string pattern, content;
};
struct StripEnds {
  std::string content;  // one character, taken up to so many times from the start and the end of each token
  int64_t start = 0, stop = 0;
};
struct MetaspaceToSpace {
  std::string mark;          // one character that stands for a space
  bool drops_first = false;  // in the first token it stands for nothing
};
using DecoderStage =
    std::variant<DecodeBytes, ByteFallback, FuseTokens, SpaceBetween, ReplaceLiteral, StripEnds, MetaspaceToSpace>;

// Immutable; what is under way in one text is in a State.
class TokenDecoder {
 public:
  // Text that a stage holds back until it knows what follows.
  struct StageState {
    std::string held;
    int64_t seen = 0;      // tokens, or characters taken from the start
    bool started = false;  // StripEnds on fused text: something else than the stripped character has come
  };
  using State = std::vector<StageState>;

  // Reads the "decoder" of a tokenizer.json. A type that is unknown, or that cannot work on text still under way, is an
  // Input error that names its place.
  explicit TokenDecoder(const JsonPlace& place);

  State start() const { return State(steps_.size()); }
  // Appends to `out` what the next token settles.
  void push(std::string_view token, State& state, std::string& out) const;
  // Appends what is still held back; the text is complete then.
  void finish(State& state, std::string& out) const;

  // The bytes that a token puts into the middle of a text, before whole characters are made of them.
  std::string bytes_of(std::string_view token) const;

 private:
  struct Step {
    DecoderStage stage;
    bool fused = false;  // its input is one token that comes in parts, instead of tokens
  };
  struct Place;
  struct Feed;
  struct Drain;
  void read(const JsonPlace& place);
  void append(DecoderStage stage, const JsonPlace& place);
  void feed(size_t index, std::string_view token, State& state, std::string& out) const;

  std::vector<Step> steps_;
  bool fused_ = false;  // what comes out of the last step
};

}  // namespace braid
