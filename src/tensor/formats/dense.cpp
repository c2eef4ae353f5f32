// SPDX-License-Identifier: Apache-2.0
#include "tensor/formats/dense.h"

#include <cstring>

#include "base/error.h"

namespace braid::formats {

void encode(const Dense& format, std::span<const float> values, std::byte* codes) {
  if (format.dtype == DType::F32) {
    std::memcpy(codes, values.data(), values.size_bytes());
    return;
  }
  CHECK(format.dtype == DType::BF16 || format.dtype == DType::F16, "{}", name_of(format.dtype));
  for (size_t i = 0; i < values.size(); ++i) {
    const uint16_t code = format.dtype == DType::BF16 ? float_to_bf16(values[i]) : float_to_f16(values[i]);
    std::memcpy(codes + 2 * i, &code, 2);
  }
}

void decode(const Dense& format, const std::byte* codes, std::span<float> out) {
  if (format.dtype == DType::F32) {
    std::memcpy(out.data(), codes, out.size_bytes());
    return;
  }
  CHECK(format.dtype == DType::BF16 || format.dtype == DType::F16, "{}", name_of(format.dtype));
  for (size_t i = 0; i < out.size(); ++i) {
    uint16_t code;
    std::memcpy(&code, codes + 2 * i, 2);
    out[i] = format.dtype == DType::BF16 ? bf16_to_float(code) : f16_to_float(code);
  }
}

}  // namespace braid::formats
