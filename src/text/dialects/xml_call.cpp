// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <initializer_list>
#include <string_view>
#include <utility>

#include "text/dialects/call_reader.h"
#include "text/dialects/json_scanner.h"

namespace braid {
namespace {

constexpr std::string_view kSpace = " \t\r\n";
constexpr std::string_view kParameter = "<parameter=", kParameterEnd = "</parameter>";
constexpr std::string_view kFunctionEnd = "</function>", kCallEnd = "</tool_call>";
constexpr size_t kGap = 32;  // white space between two marks that are still taken as one end

bool is_space(char c) { return kSpace.find(c) != std::string_view::npos; }

enum class Match { No, Partial, Whole };

Match match(std::string_view text, std::string_view mark) {
  if (text.size() < mark.size()) return mark.starts_with(text) ? Match::Partial : Match::No;
  return text.starts_with(mark) ? Match::Whole : Match::No;
}

// Whether `text` is `first`, white space, and one of `next`.
Match match_pair(std::string_view text, std::string_view first, std::initializer_list<std::string_view> next) {
  const Match start = match(text, first);
  if (start != Match::Whole) return start;
  text.remove_prefix(first.size());
  const size_t gap = text.find_first_not_of(kSpace);
  if (gap == std::string_view::npos) return text.size() < kGap ? Match::Partial : Match::Whole;
  Match out = Match::No;
  for (const std::string_view mark : next) out = std::max(out, match(text.substr(gap), mark));
  return out;
}

// How the end of a value may go on: a value may hold </parameter> itself, so what follows counts as well.
Match match_end(std::string_view text) {
  if (text.starts_with("\r\n")) text.remove_prefix(2);
  if (text.starts_with("\n")) text.remove_prefix(1);
  if (text.empty() || text == "\r") return Match::Partial;
  return std::max(match_pair(text, kParameterEnd, {kParameter, kFunctionEnd, kCallEnd}),
                  match_pair(text, kFunctionEnd, {kCallEnd}));
}

class XmlCall : public CallReader {
 public:
  explicit XmlCall(const ParameterTypes& types) : types_(types) {}

  Result push(char c, CallNews& news) override {
    switch (state_) {
      case State::Name:
        return read_name(c, news);
      case State::Between:
        return read_between(c, news);
      case State::Key:
        return read_key(c, news);
      case State::Value:
        return read_value(c, news);
      case State::Done:
        break;
    }
    return broken(std::string(1, c));
  }

  std::string rest() const override { return rest_; }

  void complete(CallNews& news) override {
    if (state_ == State::Value) {
      const bool ended =
          held_.find(kParameterEnd) != std::string::npos || held_.find(kFunctionEnd) != std::string::npos;
      if (!ended) add_value(held_, news);
      end_value(news);
    }
    end_object(news);
  }

 private:
  enum class State { Name, Between, Key, Value, Done };

  Result broken(std::string rest) {
    rest_ = std::move(rest);
    return Result::Broken;
  }

  Result read_name(char c, CallNews& news) {
    if (c != '>') {
      if (c == '<' || c == '\n') return broken(name_ + c);
      name_ += c;
      return Result::More;
    }
    if (name_.find_first_not_of(kSpace) == std::string::npos) return broken(name_ + c);
    news.name = name_;
    state_ = State::Between;
    return Result::More;
  }

  Result read_between(char c, CallNews& news) {
    if (held_.empty() && is_space(c)) return Result::More;
    held_ += c;
    Match found = Match::No;
    for (const std::string_view mark : {kParameter, kFunctionEnd, kCallEnd}) {
      const Match here = match(held_, mark);
      found = std::max(found, here);
      if (here != Match::Whole) continue;
      if (mark == kParameter) {
        state_ = State::Key;
      } else {
        if (mark == kCallEnd) rest_ = held_;
        end_object(news);
      }
    }
    if (found == Match::No) return broken(std::exchange(held_, {}));
    if (found == Match::Whole) held_.clear();
    return state_ == State::Done ? Result::Done : Result::More;
  }

  Result read_key(char c, CallNews& news) {
    if (c == '<' || c == '\n') {
      state_ = State::Between;
      return broken(std::string(kParameter) + key_ + c);
    }
    if (c != '>') {
      key_ += c;
      return Result::More;
    }
    news.arguments += any_ ? ", \"" : "{\"";
    append_json_escaped(key_, news.arguments);
    news.arguments += "\": ";
    any_ = true;
    type_ = types_.of(name_, key_);
    if (type_.only_string()) news.arguments += '"';
    key_.clear();
    start_ = true;
    state_ = State::Value;
    return Result::More;
  }

  Result read_value(char c, CallNews& news) {
    if (start_ && held_.empty() && c == '\r') {
      held_ = c;
      return Result::More;
    }
    if (std::exchange(start_, false) && c == '\n') {
      held_.clear();
      return Result::More;
    }
    held_ += c;
    while (!held_.empty()) {
      const Match found = match_end(held_);
      if (found == Match::Partial) return Result::More;
      if (found == Match::Whole) return leave_value(news);
      add_value(held_.substr(0, 1), news);
      held_.erase(0, 1);
    }
    return Result::More;
  }

  // `held_` is the end of a value and the mark after it.
  Result leave_value(CallNews& news) {
    end_value(news);
    std::string text = std::exchange(held_, {});
    const size_t parameter = text.find(kParameterEnd);
    const size_t after = parameter == std::string::npos ? text.find(kFunctionEnd) : parameter + kParameterEnd.size();
    Result result = Result::More;
    for (size_t i = after; i < text.size() && result == Result::More; ++i) {
      result = read_between(text[i], news);
      if (result == Result::Done) rest_ += text.substr(i + 1);
    }
    return result;
  }

  void add_value(std::string_view text, CallNews& news) {
    if (type_.only_string()) {
      append_json_escaped(text, news.arguments);
    } else {
      value_ += text;
    }
  }

  void end_value(CallNews& news) {
    if (type_.only_string()) {
      news.arguments += '"';
    } else {
      news.arguments += typed_value(value_, type_);
    }
    value_.clear();
    state_ = State::Between;
  }

  void end_object(CallNews& news) {
    news.arguments += any_ ? "}" : "{}";
    state_ = State::Done;
  }

  const ParameterTypes& types_;
  State state_ = State::Name;
  std::string name_, key_, value_, held_, rest_;
  ValueTypes type_;
  bool any_ = false;    // a parameter has begun
  bool start_ = false;  // of a value
};

}  // namespace

std::unique_ptr<CallReader> make_xml_call(const ParameterTypes& types) { return std::make_unique<XmlCall>(types); }

}  // namespace braid
