// A file of logits, row by row: what `braid perplexity --save-logits` writes and `--against` reads.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <cstdio>
#include <memory>
#include <span>
#include <string>

#include "base/mapped_file.h"

namespace braid::cli {

// "BRAIDLGT", version u32 = 1, vocabulary u32, rows u64, then rows x vocabulary f32, little endian.
// Rows may be written in any order. The file appears under its name when `finish` has seen every byte on disk.
class LogitsWriter {
 public:
  LogitsWriter(const std::string& file, int64_t rows, int64_t vocabulary);
  ~LogitsWriter();
  void write(int64_t row, std::span<const float> logits);
  void finish();

 private:
  std::string file_, partial_;
  int64_t vocabulary_;
  std::FILE* stream_ = nullptr;
};

// Refuses a file whose rows or vocabulary differ from what is compared.
class LogitsReader {
 public:
  LogitsReader(const std::string& file, int64_t rows, int64_t vocabulary);
  std::span<const float> row(int64_t row) const;

 private:
  MappedFile bytes_;
  int64_t vocabulary_;
};

}  // namespace braid::cli
