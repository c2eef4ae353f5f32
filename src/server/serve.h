// serve: opens a model and answers HTTP until a signal ends it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "server/options.h"

namespace braid::server {

// Returns when SIGTERM or SIGINT came and running answers have ended; a second one ends them at once. SIGHUP turns the
// debug log on and off. Errors as open_model and HttpServer.
void serve(const ServeOptions& options);

}  // namespace braid::server
