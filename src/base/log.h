// The log: one line per event on stderr, written as "event key=value ...". Any thread may log.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <spdlog/spdlog.h>

#include <string_view>

namespace braid::log {

using spdlog::debug;
using spdlog::error;
using spdlog::info;
using spdlog::warn;

// Sends the log to stderr at the level "debug", "info", "warn", "error" or "off"; another word is a Usage error.
void start(std::string_view level);

}  // namespace braid::log
