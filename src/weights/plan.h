// What is needed of a checkpoint, before any byte is read: which tensors make which weight, in which format and shape.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "base/json.h"
#include "tensor/format.h"
#include "weights/checkpoint.h"
#include "weights/quantization.h"

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
  Format stored;  // how the file holds it; the plan fills this in
  bool operator==(const Piece&) const = default;
};

struct PlannedMatrix {
  std::string name;  // for people
  int64_t count = 1, rows = 0, columns = 0;
  std::vector<Piece> pieces;  // cover count * rows rows in order; none crosses a border between matrices
  // How it is loaded; the plan fills this in. As stored where all pieces agree and none starts inside a scale block;
  // else BF16, or F32 where a piece is F32 or F16, whose values BF16 would round.
  Format format;
  int64_t bytes() const;   // as loaded: codes and scales
  bool converted() const;  // whether any piece's format differs from the file's
};

struct PlannedVector {
  enum class Transform : uint8_t { None, AddOne };
  std::string name;            // the stored tensor's name; for a constant, a name for people
  std::vector<int64_t> shape;  // of the loaded f32 tensor; the file may hold further dimensions of size 1
  Transform transform = Transform::None;
  std::vector<float> constant;  // the values themselves, for what is computed from the config
  int64_t elements() const;
};

// A family claims what it needs and names what it leaves out; `finish` refuses leftovers. Without a checkpoint (null)
// nothing is checked against files, formats follow the config's dtype and quantization_config, and `has` answers from
// the `fused` default of the spelling: that is enough to describe a model.
class WeightPlan {
 public:
  // `config` is the whole config.json: dtype or torch_dtype, quantization_config. A quant_method without support is
  // refused here, by its key. `checkpoint` must outlive the plan.
  WeightPlan(const Checkpoint* checkpoint, const Json& config);

  // Whether the checkpoint stores a tensor of exactly this name. Without a checkpoint: `otherwise`.
  bool has(const std::string& tensor, bool otherwise) const;
  // The first of these prefixes under which the checkpoint stores any tensor ("model.language_model.", "model."), else
  // the last.
  std::string prefix(const std::vector<std::string>& candidates) const;

  // Asking twice for the same rows of the same modules in the same shape, or for the same vector, gives the same
  // handle: that is what a tied head is. An Input error names a tensor that is missing, has another shape, or is coded
  // in a way that is not supported.
  MatrixId matrix(const std::string& module, int64_t rows, int64_t columns);
  // Several pieces put together, as `count` matrices of rows x columns.
  MatrixId matrix(PlannedMatrix planned);
  VectorId vector(const std::string& tensor, std::vector<int64_t> shape,
                  PlannedVector::Transform transform = PlannedVector::Transform::None);
  VectorId constant(const std::string& name, std::vector<float> values);

  // Tensors whose names start with `prefix` are not needed; logged once with the reason and their bytes when they are
  // there.
  void leave_out(const std::string& prefix, const std::string& reason);
  // An Input error names up to three tensors that nobody claimed. Says in the log which matrices are loaded in another
  // format than stored.
  void finish() const;

  const std::vector<PlannedMatrix>& matrices() const { return matrices_; }
  const std::vector<PlannedVector>& vectors() const { return vectors_; }
  int64_t bytes() const;  // of everything planned, as loaded

 private:
  Format stored_format(const Piece& piece, int64_t columns);
  bool cuts_block(const Piece& piece, const PlannedMatrix& planned) const;
  Format loaded_format(const PlannedMatrix& planned) const;
  const Checkpoint* checkpoint_;
  Quantization quantization_;
  std::vector<PlannedMatrix> matrices_;
  std::vector<PlannedVector> vectors_;
  std::unordered_map<std::string, int> known_;  // what was asked for, spelled out, to its index
  std::unordered_set<std::string> claimed_;     // tensors claimed or left out
};

}  // namespace braid
