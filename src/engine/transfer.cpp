// SPDX-License-Identifier: Apache-2.0
#include "engine/transfer.h"

#include "base/error.h"
#include "tensor/formats/dense.h"

namespace braid {

std::vector<float> download_floats(Executor& executor, Tensor tensor) {
  CHECK(tensor.contiguous() && (tensor.dtype == DType::F32 || tensor.dtype == DType::BF16), "{}", tensor.describe());
  std::vector<std::byte> bytes(static_cast<size_t>(tensor.bytes()));
  executor.download(bytes, tensor);
  std::vector<float> out(static_cast<size_t>(tensor.elements()));
  formats::decode(Dense{tensor.dtype}, bytes.data(), out);
  return out;
}

std::vector<int32_t> download_ints(Executor& executor, Tensor tensor) {
  CHECK(tensor.contiguous() && tensor.dtype == DType::I32, "{}", tensor.describe());
  std::vector<int32_t> out(static_cast<size_t>(tensor.elements()));
  executor.download(std::as_writable_bytes(std::span(out)), tensor);
  return out;
}

void upload_floats(Executor& executor, Tensor tensor, std::span<const float> values) {
  CHECK(tensor.contiguous() && tensor.elements() == std::ssize(values), "{}", tensor.describe());
  std::vector<std::byte> bytes(static_cast<size_t>(tensor.bytes()));
  formats::encode(Dense{tensor.dtype}, values, bytes.data());
  executor.upload(tensor, bytes);
}

}  // namespace braid
