// Where a model is on this machine, by path or by its name on the Hugging Face hub.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>

namespace braid {

// ~/.cache/huggingface/hub of the user who runs this process.
std::filesystem::path hub_cache();

// `model` is a folder that exists, or "organisation/name" with an optional "@revision" (a branch, tag or commit; the
// default is main) that `cache` holds. Nothing is downloaded. The Input error for a model that is in neither place says
// where it was looked for.
std::filesystem::path find_model(const std::string& model, const std::filesystem::path& cache = hub_cache());

}  // namespace braid
