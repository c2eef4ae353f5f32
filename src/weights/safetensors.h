// The safetensors layout: a JSON header that names tensors, then their bytes. Parsing trusts nothing in it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tensor/dtype.h"

namespace braid {

// One stored tensor. `bytes` live as long as the file they lie in, may start at any address, and are exactly
// elements() x size_of(dtype) long.
struct StoredTensor {
  std::string name;
  DType dtype = DType::F32;
  std::string type;  // as the file spells it; F8_E8M0, a power of two in a byte, has dtype U8
  std::vector<int64_t> shape;
  std::span<const std::byte> bytes;
  std::string file;  // for messages

  int64_t elements() const;
};

struct SafetensorsContents {
  std::vector<StoredTensor> tensors;  // in the order of their bytes
  std::map<std::string, std::string> metadata;
};

// Reads the header in `bytes`, a whole file. Any fault is an Input error that starts with `file` and names the tensor:
// a header too long, cut short or not of this form, a name twice, an unknown dtype, a shape or offset that is not a
// count or overflows, bytes outside the file, of the wrong length, overlapping, or owned by no tensor.
SafetensorsContents parse_safetensors(std::span<const std::byte> bytes, const std::string& file);

// Parses JSON in time proportional to its length, whatever the number of keys. Deeper nesting than `depth`, or a key
// twice in one object, is refused like text that is not JSON.
nlohmann::json parse_flat_json(std::string_view text, int depth);

// A name from a file as one line of reasonable length for a message.
std::string printable(std::string_view name);

std::string describe_shape(std::span<const int64_t> shape);  // "[512, 2048]"

}  // namespace braid
