// A file that appears under its name when it is whole, and not before.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>

namespace braid {

// Writes beside the file and renames at the end: what was there before stays until then, and a failure leaves nothing.
class OutputFile {
 public:
  // Opens at once, so that a place that cannot be written is known before the work whose result it takes. An Input
  // error names the file and the reason; a folder or a device in its place is refused.
  explicit OutputFile(const std::filesystem::path& file);
  ~OutputFile();  // removes what was written, but after `finish`
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  // A Resource error when the disk is full.
  void write_at(int64_t offset, std::span<const std::byte> bytes);
  // Waits until every byte is on disk, and gives the file its name.
  void finish();

 private:
  [[noreturn]] void fail_to_write(int reason) const;
  std::filesystem::path file_, target_, partial_;  // as named, where links lead to, and what is written
  int descriptor_ = -1;
};

}  // namespace braid
