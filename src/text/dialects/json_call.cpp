// SPDX-License-Identifier: Apache-2.0
#include <string_view>
#include <utility>

#include "base/json.h"
#include "text/dialects/call_reader.h"
#include "text/dialects/json_scanner.h"

namespace braid {
namespace {

bool is_space(char c) { return c == ' ' || c == '\t' || c == '\r' || c == '\n'; }

class JsonCall : public CallReader {
 public:
  Result push(char c, CallNews& news) override {
    switch (state_) {
      case State::Brace:
        return expect(c, '{', State::Key);
      case State::Key:
        if (c == '}' && key_.empty()) return finish(c, news);
        return read_key(c);
      case State::Colon:
        return expect(c, ':', State::Value);
      case State::Value:
        return read_value(c, news);
      case State::Comma:
        if (c == '}') return finish(c, news);
        return expect(c, ',', State::Key);
      case State::Done:
        break;
    }
    return broken(c);
  }

  std::string rest() const override { return rest_; }

  void complete(CallNews& news) override {
    if (in_arguments_) scanner_.complete(arguments_);
    state_ = State::Done;
    in_arguments_ = false;
    pass_on(news);
    if (!begun_) news.arguments += "{}";
  }

 private:
  enum class State { Brace, Key, Colon, Value, Comma, Done };

  Result broken(char c) {
    rest_ = (in_arguments_ ? scanner_.held() : "") + c;
    return Result::Broken;
  }

  Result expect(char c, char wanted, State next) {
    if (is_space(c)) return Result::More;
    if (c != wanted) return broken(c);
    state_ = next;
    return Result::More;
  }

  Result read_key(char c) {
    if (key_.empty() && is_space(c)) return Result::More;
    if (key_.empty() && c != '"') return broken(c);
    if (scanner_.push(c, key_) == JsonScanner::Result::Last) {
      scanner_ = {};
      state_ = State::Colon;
    }
    return Result::More;
  }

  bool key_is(std::string_view word) const { return key_.substr(1, key_.size() - 2) == word; }

  Result read_value(char c, CallNews& news) {
    const bool arguments = key_is("arguments") || key_is("parameters");
    if (arguments && value_.empty() && !in_arguments_ && c == '{') in_arguments_ = !begun_ && arguments_.empty();
    const JsonScanner::Result result = scanner_.push(c, in_arguments_ ? arguments_ : value_);
    if (in_arguments_) pass_on(news);
    if (result == JsonScanner::Result::Fault) return broken(c);
    if (result == JsonScanner::Result::More) return Result::More;
    if (!take_value(arguments, news)) return broken(c);
    scanner_ = {};
    key_.clear();
    value_.clear();
    in_arguments_ = false;
    state_ = State::Comma;
    return result == JsonScanner::Result::Last ? Result::More : push(c, news);
  }

  // A value is whole. False: the call cannot mean it.
  bool take_value(bool arguments, CallNews& news) {
    if (in_arguments_) return true;
    const Json value = Json::parse(value_, nullptr, false);
    if (key_is("name") && !name_) {
      if (!value.is_string() || value.get_ref<const std::string&>().empty()) return false;
      name_ = value.get<std::string>();
      news.name = name_;
      pass_on(news);
    } else if (arguments && value.is_string()) {
      const auto object = mended_json(value.get_ref<const std::string&>());
      if (!object || !object->starts_with('{')) return false;
      arguments_ += *object;
      pass_on(news);
    } else if (arguments && !value.is_null()) {
      return false;
    }
    return true;
  }

  void pass_on(CallNews& news) {
    if (!name_) return;
    begun_ = begun_ || !arguments_.empty();
    news.arguments += std::exchange(arguments_, {});
  }

  Result finish(char c, CallNews& news) {
    if (!name_) return broken(c);
    complete(news);
    return Result::Done;
  }

  State state_ = State::Brace;
  JsonScanner scanner_;
  std::string key_, value_;    // as JSON
  bool in_arguments_ = false;  // the value is the object of the arguments
  std::string arguments_;      // not yet passed on
  bool begun_ = false;         // arguments were passed on
  std::optional<std::string> name_;
  std::string rest_;
};

}  // namespace

std::unique_ptr<CallReader> make_json_call() { return std::make_unique<JsonCall>(); }

}  // namespace braid
