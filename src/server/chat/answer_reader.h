// AnswerReader: turns the engine's events for one choice into pieces of an answer.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/request.h"
#include "server/chat/answer.h"
#include "text/dialects/answer_parser.h"
#include "text/dialects/stop_strings.h"
#include "text/tokenizer/tokenizer.h"

namespace braid::server {

// Not thread-safe: the engine's thread alone uses it.
class AnswerReader {
 public:
  struct Options {
    const Tokenizer* tokenizer = nullptr;  // null: token ids as text
    int choice = 0;
    int64_t prompt_tokens = 0;  // 0: another choice counts the prompt
    bool skip_special = true;
    bool include_stop = false;
    std::vector<std::string> stop;
    std::optional<AnswerParserOptions> parser;  // thoughts and calls are told apart from content
    bool scores = false;
  };
  explicit AnswerReader(Options options);

  // Appends what the event settles. Stop: a stop string was found.
  Verdict take(const Event& event, std::vector<ChoicePiece>& out);

 private:
  bool is_mark(int32_t token) const;
  void take_text(std::string_view text, std::vector<ChoicePiece>& out);
  void show(std::string text, std::vector<ChoicePiece>& out);
  void emit_content(std::string text, std::vector<ChoicePiece>& out);
  void emit(std::vector<AnswerPiece> pieces, std::vector<ChoicePiece>& out);
  void end(const Event& event, std::vector<ChoicePiece>& out);

  Options options_;
  std::optional<StreamDecoder> decoder_;
  StopStrings stops_;
  std::optional<AnswerParser> parser_;
  std::vector<TokenScores> scores_;  // of tokens whose text is still held back
  bool content_begun_ = false;
  TokenUsage usage_;
};

}  // namespace braid::server
