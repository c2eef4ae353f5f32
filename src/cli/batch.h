// Answers a file of requests offline, many at a time, as the server would answer each of them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "server/options.h"

namespace braid::cli {

struct BatchOptions {
  server::ServeOptions serve;  // model, sampling, and how many run at once; nothing of it about HTTP is used
  std::string in, out;         // in: a file, or "-" for standard input
};

// Appends to `out` one line for each request that has none there, as they end, and prints a line about it. Throws
// Interrupted after Ctrl-C, an Error where any request failed; what was answered until then is in the file.
void run_batch(BatchOptions options);

}  // namespace braid::cli
