// Plain floats: layout, encode, decode.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "tensor/format.h"

namespace braid::formats {

// Values of `format.dtype` (F32, BF16, F16), one after the other.
void encode(const Dense& format, std::span<const float> values, std::byte* codes);
void decode(const Dense& format, const std::byte* codes, std::span<float> out);

}  // namespace braid::formats
