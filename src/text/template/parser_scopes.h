// What the parser keeps for the length of a scope.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "text/template/parser.h"

namespace braid::jinja {

// Sets a variable for as long as this lives.
template <typename T>
class Temporarily {
 public:
  Temporarily(T& place, T value) : place_(place), before_(place) { place_ = value; }
  ~Temporarily() { place_ = before_; }
  Temporarily(const Temporarily&) = delete;
  Temporarily& operator=(const Temporarily&) = delete;

 private:
  T& place_;
  T before_;
};

// Opens a frame inside the current one (or inside none) while it lives.
class Parser::InFrame {
 public:
  explicit InFrame(Parser& parser, bool alone = false) : parser_(parser), before_(parser.frame_) {
    parser_.frames_.push_back({alone ? -1 : before_, {}});
    parser_.frame_ = static_cast<int>(parser_.frames_.size()) - 1;
    number_ = parser_.frame_;
  }
  ~InFrame() { parser_.frame_ = before_; }
  InFrame(const InFrame&) = delete;
  InFrame& operator=(const InFrame&) = delete;
  int number() const { return number_; }

 private:
  Parser& parser_;
  int before_, number_ = 0;
};

}  // namespace braid::jinja
