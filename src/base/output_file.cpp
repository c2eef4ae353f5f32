// SPDX-License-Identifier: Apache-2.0
#include "base/output_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <system_error>

#include "base/error.h"
#include "base/files.h"

namespace braid {

namespace fs = std::filesystem;

OutputFile::OutputFile(const fs::path& file) : file_(file), target_(file) {
  if (is_there(file)) {
    std::error_code error;
    if (fs::is_directory(file, error)) fail("{}: is a folder, not a file", file.string());
    if (!fs::is_regular_file(file, error)) fail("{}: is not a regular file", file.string());
    if (::access(file.c_str(), W_OK) != 0) fail("{}: cannot be written: {}", file.string(), std::strerror(errno));
    target_ = fs::canonical(file, error);
    if (error) fail("{}: cannot be written: {}", file.string(), error.message());
  }
  partial_ = fmt::format("{}.{}.partial", target_.string(), ::getpid());
  constexpr mode_t kMode = 0666;  // less what the user's mask takes away
  descriptor_ = ::open(partial_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, kMode);
  if (descriptor_ < 0) fail("{}: cannot be written: {}", file.string(), std::strerror(errno));
}

OutputFile::~OutputFile() {
  if (descriptor_ < 0) return;
  ::close(descriptor_);
  ::unlink(partial_.c_str());
}

void OutputFile::fail_to_write(int reason) const {
  fail(ErrorKind::Resource, "{}: cannot be written: {}", file_.string(), std::strerror(reason));
}

void OutputFile::write_at(int64_t offset, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t count = ::pwrite(descriptor_, bytes.data(), bytes.size(), offset);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) fail_to_write(count < 0 ? errno : ENOSPC);
    offset += count;
    bytes = bytes.subspan(static_cast<size_t>(count));
  }
}

void OutputFile::finish() {
  if (::fsync(descriptor_) != 0 || std::rename(partial_.c_str(), target_.c_str()) != 0) fail_to_write(errno);
  ::close(descriptor_);
  descriptor_ = -1;
}

}  // namespace braid
