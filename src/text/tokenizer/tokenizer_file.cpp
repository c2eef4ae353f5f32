// SPDX-License-Identifier: Apache-2.0
#include "text/tokenizer/tokenizer_file.h"

#include <algorithm>
#include <utility>

#include "base/error.h"

namespace braid {
namespace {

constexpr size_t kMaxDepth = 256;

// Receives the parser's events. Two places of the document go straight into tables, since there they are hundreds of
// thousands; everything else becomes a Json value.
class Reader : public nlohmann::json_sax<Json> {
 public:
  explicit Reader(TokenizerFile& file) : file_(file) {}

  bool null() override { return value(nullptr); }
  bool boolean(bool flag) override { return value(flag); }
  bool number_float(double number, const std::string&) override { return value(number); }
  bool binary(Json::binary_t&) override { return false; }
  bool number_integer(int64_t number) override { return number_of_any_sign(number); }
  bool number_unsigned(uint64_t number) override {
    return number_of_any_sign(static_cast<int64_t>(std::min<uint64_t>(number, INT64_MAX)));
  }
  bool string(std::string& text) override {
    if (place_ != Place::Merges) return value(std::move(text));
    if (depth_ == kMergesDepth) return legacy_merge(text);
    if (pair_.size() == 2) fail("{}: more than two parts", merge_path());
    pair_.push_back(std::move(text));
    return true;
  }
  bool start_object(size_t) override {
    if (place_ == Place::Merges) fail("{}: expected a string or a pair of strings", merge_path());
    if (place_ == Place::Rest && stack_.size() == 2 && in_model_ && key_ == "vocab") {
      value(Json::object());
      enter(Place::Vocabulary);
      return true;
    }
    return open(Json::object());
  }
  bool key(std::string& text) override {
    key_ = std::move(text);
    if (place_ == Place::Rest && stack_.size() == 1) in_model_ = key_ == "model";
    return true;
  }
  bool end_object() override { return close(); }
  bool start_array(size_t) override {
    if (place_ == Place::Merges) {
      if (depth_ != kMergesDepth) fail("{}: expected a string or a pair of strings", merge_path());
      ++depth_;
      pair_.clear();
      return true;
    }
    if (place_ == Place::Rest && stack_.size() == 2 && in_model_ && key_ == "merges") {
      value(Json::array());
      file_.has_merges = true;
      enter(Place::Merges);
      return true;
    }
    return open(Json::array());
  }
  bool end_array() override {
    if (place_ == Place::Merges && depth_ > kMergesDepth) {
      if (pair_.size() != 2) fail("{}: expected two parts, found {}", merge_path(), pair_.size());
      file_.merges.push_back({std::move(pair_[0]), std::move(pair_[1])});
      --depth_;
      return true;
    }
    return close();
  }
  bool parse_error(size_t position, const std::string&, const nlohmann::json::exception& error) override {
    std::string reason = error.what();
    if (const auto end = reason.find("] "); end != std::string::npos) reason = reason.substr(end + 2);
    fail("not valid JSON near byte {}: {}", position, reason);
  }

 private:
  enum class Place { Rest, Vocabulary, Merges };
  static constexpr size_t kMergesDepth = 3;

  std::string merge_path() const { return fmt::format("model.merges[{}]", file_.merges.size()); }

  void enter(Place place) {
    if (place == Place::Merges) file_.merges.clear();
    if (place == Place::Vocabulary) file_.vocabulary = Vocabulary();
    place_ = place;
    depth_ = kMergesDepth;
  }

  bool number_of_any_sign(int64_t number) {
    if (place_ != Place::Vocabulary) return value(number);
    with_context("model.vocab", [&] { file_.vocabulary.add(key_, number); });
    return true;
  }

  bool legacy_merge(const std::string& text) {
    if (text.starts_with("#version")) return true;
    const size_t space = text.find(' ');
    if (space == std::string::npos || text.find(' ', space + 1) != std::string::npos) {
      fail("{}: '{}' is not two parts with one space between", merge_path(), text);
    }
    file_.merges.push_back({text.substr(0, space), text.substr(space + 1)});
    return true;
  }

  template <typename T>
  bool value(T&& item) {
    store(std::forward<T>(item));
    return true;
  }

  template <typename T>
  Json* store(T&& item) {
    if (place_ == Place::Vocabulary) fail("model.vocab: the id of '{}' is not a whole number", key_);
    if (place_ == Place::Merges) fail("{}: expected a string or a pair of strings", merge_path());
    if (stack_.empty()) {
      file_.rest = std::forward<T>(item);
      return &file_.rest;
    }
    Json& parent = *stack_.back();
    if (parent.is_array()) return &parent.emplace_back(std::forward<T>(item));
    Json& member = parent[key_];
    member = std::forward<T>(item);
    return &member;
  }

  bool open(Json container) {
    if (stack_.size() >= kMaxDepth) fail("not valid JSON: nested deeper than {} levels", kMaxDepth);
    stack_.push_back(store(std::move(container)));
    return true;
  }

  bool close() {
    if (place_ == Place::Rest) {
      stack_.pop_back();
    } else {
      place_ = Place::Rest;
    }
    return true;
  }

  TokenizerFile& file_;
  Place place_ = Place::Rest;
  size_t depth_ = 0;
  bool in_model_ = false;
  std::string key_;
  std::vector<Json*> stack_;  // the open containers; a parent does not change while a child is open
  std::vector<std::string> pair_;
};

}  // namespace

TokenizerFile parse_tokenizer_file(std::string_view text) {
  TokenizerFile file;
  Reader reader(file);
  Json::sax_parse(text.begin(), text.end(), &reader);
  if (!file.rest.is_object()) fail("expected a JSON object");
  return file;
}

}  // namespace braid
