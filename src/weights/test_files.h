// Temporary folders and safetensors files for tests: right ones, and wrong ones byte by byte.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/json.h"

namespace braid::test {

// A new folder under the system's temporary one, removed with everything in it when this dies.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string pattern = (std::filesystem::temp_directory_path() / "braid_weights_XXXXXX").string();
    CHECK(::mkdtemp(pattern.data()) != nullptr);
    path_ = pattern;
  }
  ~TemporaryFolder() { std::filesystem::remove_all(path_); }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path operator/(const std::string& name) const { return path_ / name; }

 private:
  std::filesystem::path path_;
};

inline void write_file(const std::filesystem::path& file, std::string_view bytes) {
  std::filesystem::create_directories(file.parent_path());
  std::ofstream(file, std::ios::binary).write(bytes.data(), std::ssize(bytes));
}

// Length, header and data as a safetensors file has them.
inline std::string safetensors_bytes(std::string_view header, std::string_view data) {
  std::string out(8, '\0');
  const uint64_t length = header.size();
  std::memcpy(out.data(), &length, 8);
  return out.append(header).append(data);
}

// Collects tensors and writes them as one file.
class FileWriter {
 public:
  void add(const std::string& name, const std::string& type, const std::vector<int64_t>& shape, std::string_view data) {
    header_[name] = {{"dtype", type}, {"shape", shape}, {"data_offsets", {data_.size(), data_.size() + data.size()}}};
    data_ += data;
  }
  template <typename T>
  requires std::is_trivially_copyable_v<T>
  void add(const std::string& name, const std::string& type, const std::vector<int64_t>& shape,
           const std::vector<T>& values) {
    add(name, type, shape, std::string_view(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)));
  }
  // Spaces after the header move the data: `misalign` bytes past a multiple of 8.
  void write(const std::filesystem::path& file, size_t misalign = 0) const {
    std::string header = header_.dump();
    while (header.size() % 8 != misalign) header += ' ';
    write_file(file, safetensors_bytes(header, data_));
  }

 private:
  Json header_ = Json::object();
  std::string data_;
};

// What `work` complains about; a test failure when it does not.
template <typename Work>
std::string complaint(Work&& work) {
  try {
    work();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::Input);
    EXPECT_EQ(error.message().find('\n'), std::string::npos) << error.message();
    return error.message();
  }
  ADD_FAILURE() << "nothing was refused";
  return "";
}

inline void expect_contains(const std::string& text, const std::string& fragment) {
  EXPECT_NE(text.find(fragment), std::string::npos) << "'" << text << "' lacks '" << fragment << "'";
}

}  // namespace braid::test
