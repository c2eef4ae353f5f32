// Which model families this engine runs, and reading one from its config.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "base/json.h"
#include "model/spec.h"
#include "weights/plan.h"

namespace braid {

struct ModelOptions {
  Json rope_scaling;  // null, or an object that replaces the config's rope_scaling
};

// Reads config.json (`place` names it) into a spec, planning the weights it needs. The text part of a multimodal config
// is read; its vision tower is left out. An unknown model_type is refused with the list of what runs. Finishes config
// and plan.
ModelSpec read_model(const Json& config, const std::string& place, WeightPlan& plan, const ModelOptions& options = {});

// The model_type values that run, sorted.
std::vector<std::string> known_families();

}  // namespace braid
