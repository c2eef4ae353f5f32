// AnswerParser: turns an answer, as it streams, into thoughts, text and tool calls, without the marks between them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "text/dialects/call_reader.h"
#include "text/dialects/dialect.h"
#include "text/dialects/parameter_types.h"

namespace braid {

// The pieces of an answer, in order. Between ToolBegin and ToolEnd of a call come its ToolArguments and nothing else.
struct AnswerPiece {
  enum class Kind { Reasoning, Content, ToolBegin, ToolArguments, ToolEnd };
  Kind kind;
  std::string text;   // Reasoning, Content: the text; ToolBegin: the function's name; ToolArguments: JSON text
  int tool = -1;      // which call of the answer, from 0; -1 where it is none
  std::string id;     // ToolBegin: of this call
  bool whole = true;  // ToolEnd: false where the answer was cut inside the call
  bool operator==(const AnswerPiece&) const = default;
};

struct AnswerParserOptions {
  Dialect dialect;  // tools None: marks of calls are text, as is right where the request offers no tools
  ReasoningStart start = ReasoningStart::Unopened;
  // The answer is held to a form, in which what looks like a mark is text: thoughts come before it or not at all, and
  // there are no calls.
  bool held = false;
  Json tools;           // of the request, a list or null; types the values of calls in the Xml form
  uint64_t id_key = 0;  // call ids are made from it
};

// Not thread-safe. However the text is cut into pieces, the answer's pieces are the same when neighbours of one kind
// are joined. Only the end of the text that may still become a mark waits, with the white space before it.
//
// A call may begin among thoughts, and ends them.
//
// White space around thoughts, around calls and between them is dropped. Thoughts without content give no piece. The
// arguments of a call, joined, are one JSON object, or the start of one where `whole` is false. What cannot be a call
// becomes text without the marks, and the log announces the first of an answer: from the start where the name was not
// known yet, else from the fault on, after the object was closed.
class AnswerParser {
 public:
  explicit AnswerParser(AnswerParserOptions options);
  AnswerParser(const AnswerParser&) = delete;
  AnswerParser& operator=(const AnswerParser&) = delete;

  // `text` is whole characters.
  std::vector<AnswerPiece> push(std::string_view text);
  // The rest. `cut`: the answer ended otherwise than by its own end, so a call that is open stays as it is.
  std::vector<AnswerPiece> finish(bool cut);

  bool in_reasoning() const { return place_ == Place::Reasoning; }
  int calls() const { return calls_; }          // begun so far
  int malformed() const { return malformed_; }  // what could not be read as a call so far

 private:
  enum class Place { Reasoning, Content, CallStart, Call, AfterCall };
  void step(char c);
  void step_text(char c);
  void step_call_start(char c);
  void step_call(char c);
  void step_after_call(char c);
  void take_mark(std::string_view mark);
  void put_text(char c);
  std::span<const std::string> marks() const;
  void enter(Place place);
  void start_call(std::unique_ptr<CallReader> reader);
  void take_news(CallNews& news);
  void end_call(bool whole);
  void announce(std::string_view what);
  void give_up(size_t open);
  void emit(AnswerPiece piece);

  AnswerParserOptions options_;
  ParameterTypes types_;
  std::vector<std::string> marks_;  // in content; the opening one of thoughts is the first
  std::vector<std::string> reasoning_marks_;
  Place place_ = Place::Content;
  Place before_ = Place::Content;  // the call: where its text goes if it is none
  bool begun_ = false;             // text of this place was given out
  bool verbatim_ = false;          // white space at the start belongs to the content
  std::string held_;               // may be the start of a mark
  std::string space_;              // white space that counts only if text follows
  std::unique_ptr<CallReader> reader_;
  bool named_ = false;  // the call has its name
  std::string raw_;     // the call so far, where it has no name yet
  int calls_ = 0, malformed_ = 0;
  std::vector<AnswerPiece> out_;
};

}  // namespace braid
