// Asking for files and folders, with errors that name them and the reason.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <vector>

namespace braid {

// Whether there is a file or folder at `path`, links followed. An Input error where that cannot be told: a loop of
// links, a folder that may not be entered.
bool is_there(const std::filesystem::path& path);

// What lies in a folder, in order of names. An Input error where it is no folder or cannot be listed.
std::vector<std::filesystem::path> list_folder(const std::filesystem::path& folder);

}  // namespace braid
