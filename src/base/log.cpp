// SPDX-License-Identifier: Apache-2.0
#include "base/log.h"

#include <spdlog/sinks/stdout_color_sinks.h>

#include "base/error.h"

namespace braid::log {

void start(std::string_view level) {
  const auto parsed = spdlog::level::from_str(std::string(level));
  if (parsed == spdlog::level::off && level != "off") fail(ErrorKind::Usage, "unknown log level '{}'", level);
  spdlog::drop("braid");
  auto logger = spdlog::stderr_color_mt("braid");
  logger->set_pattern("%^%l%$ %v");
  logger->set_level(parsed);
  spdlog::set_default_logger(std::move(logger));
}

}  // namespace braid::log
