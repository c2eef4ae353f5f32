// What a config says about how weights are coded, and how a stored matrix with its scales is recognised.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "tensor/format.h"
#include "weights/checkpoint.h"

namespace braid {

// `quantization_config`, `dtype` or `torch_dtype` of a config.json, at the top or in its `text_config`.
struct Quantization {
  DType dtype = DType::BF16;      // of what is not quantised
  std::optional<Format> coded;    // of what is quantised
  std::optional<Fp8Block> block;  // weight_block_size
  bool power_scales = false;      // scale_fmt ue8m0: scales in bytes are 2^(b - 127)
  // modules_to_not_convert, ignored_layers, ignore, exclude_modules, without a "language_model" level. "re:" begins a
  // regular expression.
  std::vector<std::string> exempt;

  // How a module is stored as far as the config tells. An exempt entry means the module of that name, those below it,
  // and those whose last components it spells; a "language_model" level that only one of the two has is overlooked.
  // Embeddings and heads are never quantised.
  Format expected(const std::string& module) const;
};

// An Input error names the key, not the file, for a quant_method that is not supported, or a value that makes no sense.
// `checkpoint` may be null; it lets the error name a tensor.
Quantization read_quantization(const Json& config, const Checkpoint* checkpoint);

// A matrix in a file: [..., rows, columns], leading dimensions stacking equal matrices (experts).
struct StoredMatrix {
  const StoredTensor* weight = nullptr;
  const StoredTensor* scales = nullptr;      // null: there are none
  const StoredTensor* multiplier = nullptr;  // of NVFP4: a scale of the whole tensor, or of each stacked matrix
  bool divides = false;                      // the multiplier is one to divide by

  int64_t columns() const;
  int64_t rows() const;          // of one of the stacked matrices
  int64_t stacked_rows() const;  // of all of them
};

// "<module>.weight" with "<module>.weight_scale_inv", or with "<module>.weight_scale" and "<module>.weight_scale_2"; or
// "<module>.weight_packed" with "<module>.weight_scale" and "<module>.weight_global_scale"; or "<module>" with
// "<module>_scale_inv". An Input error when no weight is there.
StoredMatrix find_matrix(const Checkpoint& checkpoint, const std::string& module);

// Tensors that may lie beside a matrix of this format and belong to it: scales, and static activation scales, which
// are not used.
std::vector<std::string> companions(const std::string& module);

// The format of a matrix from its own dtype and scales; the config only adds the block shape. An Input error names the
// tensor for a dtype without support, codes without scales, scales without codes, a scale grid of another shape.
Format recognise(const StoredMatrix& matrix, const Quantization& quantization);

}  // namespace braid
