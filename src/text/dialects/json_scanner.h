// JsonScanner: follows a JSON value character by character, passes on what is sure, and can close what is open.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace braid {

// Not thread-safe. What it passes on is always the start of a valid JSON value, which complete() makes whole. It passes
// strings on as they come, and keys, commas, numbers and words when what follows shows that they stand. What models
// often get wrong in strings is mended: control characters as they are, escapes that JSON does not have, half surrogate
// pairs; so are commas before a closing bracket and the words True, False and None.
class JsonScanner {
 public:
  // More: taken. Last: taken, and the value is whole. Before: the value was whole before this character, which is not
  // taken. Fault: the character cannot stand here and is not taken.
  enum class Result { More, Last, Before, Fault };
  Result push(char c, std::string& out);
  // Appends what makes the value valid where it stops; null where nothing has begun.
  void complete(std::string& out);
  // What was taken and not passed on.
  std::string held() const { return pending_ + scalar_ + high_ + escape_; }

 private:
  enum class State { Value, FirstKey, Key, Colon, FirstItem, After, String, Scalar, Done };
  Result push_string(char c, std::string& out);
  Result push_escape(char c, std::string& out);
  Result push_scalar(char c);
  Result begin_value(char c, std::string& out);
  Result end_value();
  Result close(char bracket, std::string& out);
  Result close_after_comma(char bracket, std::string& out);
  void finish_unicode(std::string& out);
  bool flush_scalar(std::string& out);
  void put(std::string_view text, std::string& out);

  State state_ = State::Value;
  std::vector<char> open_;  // the closing brackets that are due
  bool key_ = false;        // the string is a key
  std::string pending_;     // commas, keys and white space that are passed on with the next value
  std::string scalar_;      // a number or word that is not complete
  std::string escape_;      // an escape that is not complete
  std::string high_;        // the first half of a surrogate pair, as an escape
};

// The valid JSON value that `text` is after mending, white space around it left out; nothing if it is none.
std::optional<std::string> mended_json(std::string_view text);

// Appends `text` as it stands inside a JSON string; `text` is whole characters.
void append_json_escaped(std::string_view text, std::string& out);

}  // namespace braid
