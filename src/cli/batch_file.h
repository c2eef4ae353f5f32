// The files of a batch: lines that ask, and the lines that answer them, which outlive a crash.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"

namespace braid::cli {

// One request of a batch, as the OpenAI batch API writes it. A line that cannot be asked has a `fault`.
struct BatchLine {
  int64_t number = 0;     // from 1
  std::string custom_id;  // empty: the line has none that tells it apart
  std::string url, body;  // body: JSON
  std::string fault;      // one sentence
};

// Empty lines are none. A custom_id that came before is a fault of the later line. A body that names no model asks
// `model`.
std::vector<BatchLine> read_batch(std::string_view text, const std::string& model);

// The file of answers, one JSON object a line. Not thread-safe.
class BatchOutput {
 public:
  // Opens or makes the file. A last line that was not written whole is cut off, with a warning. An Input error where
  // the file holds anything else than answers, or another process writes it.
  explicit BatchOutput(const std::filesystem::path& file);
  ~BatchOutput();
  BatchOutput(const BatchOutput&) = delete;
  BatchOutput& operator=(const BatchOutput&) = delete;

  // Whether the file holds the line's answer.
  bool has(const BatchLine& line) const;
  // How many of the answers that were there before say that a request failed.
  size_t failed_before() const { return failed_before_; }
  // A Resource error when the disk is full. What was appended stays when the process dies.
  void append(const BatchLine& line, Json answer);
  // Waits until every byte is on disk.
  void finish();

 private:
  void read();
  std::filesystem::path file_;
  int descriptor_ = -1;
  std::set<std::string> ids_;
  std::set<int64_t> lines_;  // of those without an id
  size_t failed_before_ = 0;
};

}  // namespace braid::cli
