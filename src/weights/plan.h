// What is needed of a checkpoint, before any byte is read: which tensors make which weight, in which format and shape.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/json.h"
#include "tensor/format.h"
#include "weights/checkpoint.h"

namespace braid {

// Handles into the plan and, after loading, into the weight table. A default handle names nothing.
struct MatrixId {
  int index = -1;
  explicit operator bool() const { return index >= 0; }
};
struct VectorId {
  int index = -1;
  explicit operator bool() const { return index >= 0; }
};

// Consecutive rows of one stored matrix. `module` is stored as "<module>.weight" (with "<module>.weight_scale_inv"
// where it is FP8) or, for fused experts, as "<module>" (with "<module>_scale_inv"), its leading dimensions flattened
// into rows.
struct Piece {
  std::string module;
  int64_t stored_rows = 0;  // rows of the whole stored matrix, checked against the file
  int64_t first_row = 0;
  int64_t rows = 0;
};

struct PlannedMatrix {
  std::string name;  // for people
  int64_t count = 1, rows = 0, columns = 0;
  std::vector<Piece> pieces;  // cover count * rows rows in order; none crosses a border between matrices
  Format stored;              // how the file holds it
  Format format;              // how it is loaded: as stored, or BF16 where pieces cut a scale block
  int64_t bytes() const;
};

struct PlannedVector {
  enum class Transform : uint8_t { None, AddOne };
  std::string name;            // the stored tensor's name; for a constant, a name for people
  std::vector<int64_t> shape;  // of the loaded f32 tensor; the file may hold further dimensions of size 1
  Transform transform = Transform::None;
  std::vector<float> constant;  // the values themselves, for what is computed from the config
};

// A family claims what it needs and names what it leaves out; `finish` refuses leftovers. Without a checkpoint (null)
// nothing is checked against files, formats follow the config's dtype and quantization_config, and `has` answers from
// the `fused` default of the spelling: that is enough to describe a model.
class WeightPlan {
 public:
  // `config` is the whole config.json: dtype or torch_dtype, quantization_config. A quant_method without support is
  // refused here.
  WeightPlan(const Checkpoint* checkpoint, const Json& config);

  // Whether the checkpoint stores a tensor of exactly this name. Without a checkpoint: `otherwise`.
  bool has(const std::string& tensor, bool otherwise) const;
  // The first of these prefixes under which the checkpoint stores any tensor ("model.language_model.", "model."), else
  // the last.
  std::string prefix(const std::vector<std::string>& candidates) const;

  MatrixId matrix(const std::string& module, int64_t rows, int64_t columns);
  // Several pieces put together, as `count` matrices of rows x columns.
  MatrixId matrix(PlannedMatrix planned);
  VectorId vector(const std::string& tensor, std::vector<int64_t> shape,
                  PlannedVector::Transform transform = PlannedVector::Transform::None);
  VectorId constant(const std::string& name, std::vector<float> values);

  // Tensors whose names start with `prefix` are not needed; logged once with the reason and their bytes when they are
  // there.
  void leave_out(const std::string& prefix, const std::string& reason);
  // An Input error names up to three tensors that nobody claimed.
  void finish() const;

  const std::vector<PlannedMatrix>& matrices() const { return matrices_; }
  const std::vector<PlannedVector>& vectors() const { return vectors_; }
  int64_t bytes() const;  // of everything planned, as loaded

 private:
  const StoredTensor* claim(const std::string& tensor);
  Format stored_format(const Piece& piece, int64_t columns);
  const Checkpoint* checkpoint_;
  Json config_;
  std::vector<PlannedMatrix> matrices_;
  std::vector<PlannedVector> vectors_;
  std::map<std::string, int> claimed_;
  std::vector<std::string> left_out_;
};

}  // namespace braid
