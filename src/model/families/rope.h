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

}  // namespace braid
