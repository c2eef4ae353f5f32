// JSON: nlohmann's value that keeps the order of keys, and reading it from files with errors that name file and place.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "base/ordered_map.h"

namespace braid {

using Json = nlohmann::basic_json<OrderedMap>;

// Parses `text`. A fault, or nesting deeper than 256 levels, is an Input error: "<name>: not valid JSON: ...".
// Duplicate keys: the last one wins. NaN and Infinity as Python writes them are read as numbers.
Json parse_json(std::string_view text, const std::string& name);

// Reads and parses a whole file.
Json read_json(const std::filesystem::path& file);

// The file's bytes; an Input error that names the file if it cannot be read.
std::string read_file(const std::filesystem::path& file);

}  // namespace braid
