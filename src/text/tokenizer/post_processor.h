// PostProcessor: the special tokens that a tokenizer puts before and after a text.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "text/tokenizer/tokenizer_file.h"

namespace braid {

class PostProcessor {
 public:
  PostProcessor() = default;
  // Reads the "post_processor" of a tokenizer.json; an unknown type is an Input error that names its place.
  explicit PostProcessor(const JsonPlace& place);

  // Adds the special tokens to the ids of a text.
  std::vector<int32_t> apply(std::vector<int32_t> ids) const;

 private:
  void read(const JsonPlace& place);
  void read_template(const JsonPlace& place);

  struct Wrap {
    std::vector<int32_t> before, after;
  };
  std::vector<Wrap> wraps_;
};

}  // namespace braid
