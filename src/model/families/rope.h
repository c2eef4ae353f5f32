// Rotary position settings of a config, in both spellings, and the frequencies they give.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "model/config.h"

namespace braid {

// Frequencies f_i = theta^(-2i / rot) for i < rot / 2, after scaling; `scale` multiplies cos and sin (semantics 4.4).
struct RopeTable {
  std::vector<float> frequencies;
  float scale = 1.0f;
};

// Reads `rope_parameters`, or `rope_theta`, `rope_scaling` and `partial_rotary_factor`. `override` (may be null)
// replaces the scaling: an object like rope_scaling. Types: default, linear, yarn (Peng et al., 2023; semantics ROP-5),
// llama3. `head_size` is the width that the partial factor applies to.
RopeTable read_rope(ConfigReader& config, int64_t head_size, const Json& override);

// Positions that the model is good for: `max_position_embeddings`, or what a scaling stretches the original ones to
// where that is more. Of a config that is yarn with `original_max_position_embeddings`, since otherwise nothing says
// whether the maximum is meant before or after; of an override, yarn and linear.
int64_t read_context(ConfigReader& config, const Json& override);

}  // namespace braid
