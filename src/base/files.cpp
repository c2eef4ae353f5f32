// SPDX-License-Identifier: Apache-2.0
#include "base/files.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <system_error>

#include "base/error.h"
#include "base/interrupt.h"
#include "base/json.h"

namespace braid {

namespace fs = std::filesystem;

namespace {

struct Closer {
  int descriptor;
  ~Closer() { ::close(descriptor); }
};

}  // namespace

bool is_there(const fs::path& path) {
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  // A path that goes through a file leads nowhere.
  if (status.type() == fs::file_type::not_found || error == std::errc::not_a_directory) return false;
  if (error) fail("{}: cannot be opened: {}", path.string(), error.message());
  return true;
}

std::vector<fs::path> list_folder(const fs::path& folder) {
  std::error_code error;
  if (is_there(folder) && !fs::is_directory(folder, error)) fail("{}: is a file, not a folder", folder.string());
  std::vector<fs::path> paths;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error))
    paths.push_back(at->path());
  if (error) fail("{}: cannot be listed: {}", folder.string(), error.message());
  std::ranges::sort(paths);
  return paths;
}

std::string read_whole(const fs::path& path) {
  std::error_code error;  // left to read_file
  const fs::file_status status = fs::status(path, error);
  if (error || !fs::exists(status) || fs::is_directory(status) || fs::is_regular_file(status)) return read_file(path);
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) check_interrupted();
  if (descriptor < 0) fail("{}: cannot be read: {}", path.string(), std::strerror(errno));
  const Closer closer{descriptor};
  constexpr size_t kMost = size_t{1} << 30, kPiece = size_t{1} << 16;
  std::string bytes;
  for (size_t size = 0;;) {
    if (size >= kMost) fail("{}: does not end within {} bytes", path.string(), kMost);
    bytes.resize(size + kPiece);
    const ssize_t count = ::read(descriptor, bytes.data() + size, kPiece);
    if (count < 0 && errno != EINTR) fail("{}: cannot be read: {}", path.string(), std::strerror(errno));
    if (count < 0) check_interrupted();
    size += static_cast<size_t>(std::max<ssize_t>(count, 0));
    bytes.resize(size);
    if (count == 0) return bytes;
  }
}

}  // namespace braid
