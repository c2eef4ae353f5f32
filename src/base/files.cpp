// SPDX-License-Identifier: Apache-2.0
#include "base/files.h"

#include <algorithm>
#include <system_error>

#include "base/error.h"

namespace braid {

namespace fs = std::filesystem;

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

}  // namespace braid
