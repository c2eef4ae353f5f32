// The commands of `braid`: each adds its subcommand with its options, and runs when it was the one that was asked for.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <CLI/CLI.hpp>

namespace braid::cli {

// Adds every command to `app`. Each throws Error from within CLI11's parse when it fails.
void add_bench(CLI::App& app);
void add_describe(CLI::App& app);
void add_perplexity(CLI::App& app);
void add_run(CLI::App& app);
void add_serve(CLI::App& app);
void add_tokenize(CLI::App& app);
void add_verify(CLI::App& app);

}  // namespace braid::cli
