// A file of logits, row by row: what `braid perplexity --save-logits` writes and `--against` reads.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/mapped_file.h"
#include "base/output_file.h"

namespace braid::cli {

// What logits are of. Two files are comparable where all of it is equal.
struct LogitsSubject {
  int64_t rows = 0, vocabulary = 0;
  int64_t longest = 0, stride = 0;  // how the text was cut: tokens of a window, and how far windows move on
  uint64_t text = 0;                // hash of all windows: their tokens, and which of these are scored
};

// "BRAIDLGT", version u32 = 2, vocabulary u32, rows, longest, stride, text as u64, a hash u64 of these and the list
// that follows; for every row a hash u64 of its bytes; then rows x vocabulary f32. All little endian. The file cannot
// be written: found by the constructor. It appears under its name when `finish` has seen every row, which may come in
// any order, and every byte on disk.
class LogitsWriter {
 public:
  LogitsWriter(const std::string& file, const LogitsSubject& subject);
  void write(int64_t row, std::span<const float> logits);
  void finish();

 private:
  LogitsSubject subject_;
  std::vector<uint64_t> hashes_;
  int64_t written_ = 0;
  OutputFile out_;
};

// Refuses a file that is of something else, with what differs, and rows that are damaged.
class LogitsReader {
 public:
  LogitsReader(const std::string& file, const LogitsSubject& subject);
  std::span<const float> row(int64_t row) const;

 private:
  std::string file_;
  MappedFile bytes_;
  LogitsSubject subject_;
};

}  // namespace braid::cli
