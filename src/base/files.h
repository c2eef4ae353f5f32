// Asking for files and folders, with errors that name them and the reason.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace braid {

// Whether there is a file or folder at `path`, links followed. An Input error where that cannot be told: a loop of
// links, a folder that may not be entered.
bool is_there(const std::filesystem::path& path);

// What lies in a folder, in order of names. An Input error where it is no folder or cannot be listed.
std::vector<std::filesystem::path> list_folder(const std::filesystem::path& folder);

// The bytes of whatever a user may name where text is wanted: a file, a pipe, a device. An Input error that names it
// where it cannot be read, or is no file and does not end within 1 GiB; Interrupted after Ctrl-C.
std::string read_whole(const std::filesystem::path& path);

}  // namespace braid
