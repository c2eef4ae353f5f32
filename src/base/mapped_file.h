// A file's bytes mapped read-only, or read into memory where mapping is not wanted.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <span>

namespace braid {

// Owns the mapping; the bytes live as long as this object. Reading is safe from any thread.
class MappedFile {
 public:
  enum class Mode { Map, Read };  // Read copies the file into anonymous memory

  // An Input error that names the file when it cannot be opened, is not a regular file, or (Map) cannot be mapped.
  explicit MappedFile(const std::filesystem::path& file, Mode mode = Mode::Map);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  std::span<const std::byte> bytes() const { return {data_, size_}; }
  // Keeps the pages in memory (mlock). A Resource error that says which limit to raise when the system refuses.
  void lock();

 private:
  std::filesystem::path file_;
  std::byte* data_ = nullptr;
  size_t size_ = 0;
  bool mapped_ = false;
  std::unique_ptr<std::byte[]> copy_;
};

}  // namespace braid
