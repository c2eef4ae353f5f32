// SPDX-License-Identifier: Apache-2.0
#include "weights/plan.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/log.h"
#include "tensor/tensor.h"

namespace braid {
namespace {

// Of one tensor: more than any machine holds, and so little that the sum over all tensors of a model stays exact.
constexpr int64_t kLargestBytes = int64_t{1} << 48;

// Tensors that some exports store and that every loader computes by itself.
constexpr std::string_view kRecomputed[] = {".rotary_emb.inv_freq", ".rotary_emb.original_inv_freq",
                                            ".rotary_emb.cos_cached", ".rotary_emb.sin_cached"};

bool recomputed(const std::string& name) {
  return std::ranges::any_of(kRecomputed, [&](std::string_view ending) { return name.ends_with(ending); });
}

// What a piece is made of, spelled out: equal keys mean equal weights.
std::string key_of(const PlannedMatrix& planned) {
  std::string key = fmt::format("matrix {} {} {}", planned.count, planned.rows, planned.columns);
  for (const Piece& piece : planned.pieces) key += fmt::format(" {} {}+{}", piece.module, piece.first_row, piece.rows);
  return key;
}

std::vector<int64_t> without_ones(const std::vector<int64_t>& shape) {
  std::vector<int64_t> out;
  std::ranges::copy_if(shape, std::back_inserter(out), [](int64_t dim) { return dim != 1; });
  return out;
}

// Bytes of `dims` f32 values; an Input error when the config asks for the impossible.
void check_size(const std::string& name, std::initializer_list<int64_t> dims) {
  int64_t bytes = 4;
  for (const int64_t dim : dims)
    if (dim < 1 || __builtin_mul_overflow(bytes, dim, &bytes) || bytes > kLargestBytes)
      fail("{}: the config asks for an impossible shape {}", printable(name), describe_shape(std::vector(dims)));
}

// The pieces must cover the matrices' rows in order, each inside one matrix.
void check_cover(const PlannedMatrix& planned) {
  int64_t covered = 0;
  for (const Piece& piece : planned.pieces) {
    CHECK(piece.rows > 0 && piece.first_row >= 0 && piece.rows <= piece.stored_rows - piece.first_row,
          "{}: piece {} rows {}+{} of {}", planned.name, piece.module, piece.first_row, piece.rows, piece.stored_rows);
    CHECK(piece.rows <= planned.rows - covered % planned.rows, "{}: piece {} crosses a matrix", planned.name,
          piece.module);
    covered += piece.rows;
  }
  CHECK(covered == planned.count * planned.rows, "{}: pieces give {} rows, not {} x {}", planned.name, covered,
        planned.count, planned.rows);
}

}  // namespace

int64_t PlannedMatrix::bytes() const {
  int64_t total = 0;
  for (const Piece& piece : pieces)
    total += piece.rows * (row_bytes(format, columns) + group_bytes(format, columns)) +
             scale_count(format, piece.rows, columns) * static_cast<int64_t>(sizeof(float));
  return total;
}

bool PlannedMatrix::converted() const {
  return std::ranges::any_of(pieces, [&](const Piece& piece) { return piece.stored != format; });
}

int64_t PlannedVector::elements() const {
  int64_t count = 1;
  for (const int64_t dim : shape) count *= dim;
  return count;
}

WeightPlan::WeightPlan(const Checkpoint* checkpoint, const Json& config)
    : checkpoint_(checkpoint), quantization_(read_quantization(config, checkpoint)) {}

bool WeightPlan::has(const std::string& tensor, bool otherwise) const {
  return checkpoint_ == nullptr ? otherwise : checkpoint_->find(tensor) != nullptr;
}

std::string WeightPlan::prefix(const std::vector<std::string>& candidates) const {
  CHECK(!candidates.empty());
  for (const std::string& candidate : candidates) {
    if (checkpoint_ == nullptr) break;
    const auto first = checkpoint_->tensors().lower_bound(candidate);
    if (first != checkpoint_->tensors().end() && first->first.starts_with(candidate)) return candidate;
  }
  return candidates.back();
}

MatrixId WeightPlan::matrix(const std::string& module, int64_t rows, int64_t columns) {
  return matrix({.name = module,
                 .rows = rows,
                 .columns = columns,
                 .pieces = {{.module = module, .stored_rows = rows, .first_row = 0, .rows = rows}}});
}

MatrixId WeightPlan::matrix(PlannedMatrix planned) {
  check_size(planned.name, {planned.count, planned.rows, planned.columns});
  check_cover(planned);
  const auto [known, inserted] = known_.try_emplace(key_of(planned), static_cast<int>(matrices_.size()));
  if (!inserted) return {known->second};
  for (Piece& piece : planned.pieces) piece.stored = stored_format(piece, planned.columns);
  planned.format = loaded_format(planned);
  matrices_.push_back(std::move(planned));
  return {static_cast<int>(matrices_.size()) - 1};
}

Format WeightPlan::stored_format(const Piece& piece, int64_t columns) {
  if (checkpoint_ == nullptr) {
    const Format format = quantization_.expected(piece.module);
    return columns % column_alignment(format) == 0 ? format : Dense{quantization_.dtype};
  }
  const StoredMatrix stored = find_matrix(*checkpoint_, piece.module);
  if (stored.columns() != columns || stored.stacked_rows() != piece.stored_rows)
    fail("{}: expected {}, found {} (in {})", printable(stored.weight->name),
         describe_shape(std::vector{piece.stored_rows, columns}), describe_shape(stored.weight->shape),
         stored.weight->file);
  claimed_.insert(stored.weight->name);
  for (const std::string& companion : companions(piece.module)) claimed_.insert(companion);
  return recognise(stored, quantization_);
}

bool WeightPlan::cuts_block(const Piece& piece, const PlannedMatrix& planned) const {
  const int64_t alignment = row_alignment(piece.stored);
  // Blocks start anew with each of the matrices that a stored tensor stacks. Without a checkpoint, one that is larger
  // than a planned matrix is taken to stack as many as are planned.
  int64_t rows = piece.stored_rows;
  if (checkpoint_ != nullptr) {
    rows = find_matrix(*checkpoint_, piece.module).rows();
  } else if (planned.count > 1 && rows > planned.rows && rows % planned.count == 0) {
    rows /= planned.count;
  }
  const int64_t first = piece.first_row % rows;
  return first % alignment != 0 || (first + piece.rows > rows && rows % alignment != 0);
}

Format WeightPlan::loaded_format(const PlannedMatrix& planned) const {
  const Format& first = planned.pieces.front().stored;
  bool as_stored = true, exact_in_bf16 = true;
  for (const Piece& piece : planned.pieces) {
    as_stored &= piece.stored == first && !cuts_block(piece, planned);
    const auto* dense = std::get_if<Dense>(&piece.stored);
    exact_in_bf16 &= dense == nullptr || dense->dtype == DType::BF16;
  }
  if (as_stored) return first;
  return Dense{exact_in_bf16 ? DType::BF16 : DType::F32};
}

VectorId WeightPlan::vector(const std::string& tensor, std::vector<int64_t> shape, PlannedVector::Transform transform) {
  CHECK(!shape.empty() && shape.size() <= Tensor::kMaxRank, "{}", tensor);
  PlannedVector planned{.name = tensor, .shape = std::move(shape), .transform = transform};
  int64_t elements = 1;
  for (const int64_t dim : planned.shape) {
    check_size(tensor, {elements, dim});
    elements *= dim;
  }
  const std::string key =
      fmt::format("vector {} {} {}", tensor, describe_shape(planned.shape), static_cast<int>(transform));
  const auto [known, inserted] = known_.try_emplace(key, static_cast<int>(vectors_.size()));
  if (!inserted) return {known->second};
  if (checkpoint_ != nullptr) {
    const StoredTensor& stored = checkpoint_->at(tensor);
    if (without_ones(stored.shape) != without_ones(planned.shape))
      fail("{}: expected {}, found {} (in {})", printable(tensor), describe_shape(planned.shape),
           describe_shape(stored.shape), stored.file);
    if (stored.dtype != DType::F32 && stored.dtype != DType::BF16 && stored.dtype != DType::F16)
      fail("{}: expected F32, BF16 or F16, found {} (in {})", printable(tensor), stored.type, stored.file);
    claimed_.insert(tensor);
  }
  vectors_.push_back(std::move(planned));
  return {static_cast<int>(vectors_.size()) - 1};
}

VectorId WeightPlan::constant(const std::string& name, std::vector<float> values) {
  CHECK(!values.empty(), "{}", name);
  vectors_.push_back({.name = name, .shape = {std::ssize(values)}, .constant = std::move(values)});
  return {static_cast<int>(vectors_.size()) - 1};
}

void WeightPlan::leave_out(const std::string& prefix, const std::string& reason) {
  if (checkpoint_ == nullptr) return;
  int64_t count = 0, bytes = 0;
  const auto& tensors = checkpoint_->tensors();
  for (auto at = tensors.lower_bound(prefix); at != tensors.end() && at->first.starts_with(prefix); ++at) {
    if (!claimed_.insert(at->first).second) continue;
    ++count;
    bytes += std::ssize(at->second.bytes);
  }
  if (count > 0) log::info("left_out prefix={} tensors={} bytes={} reason=\"{}\"", prefix, count, bytes, reason);
}

void WeightPlan::finish() const {
  if (checkpoint_ == nullptr) return;
  constexpr int kNamed = 3;
  int unclaimed = 0;
  std::string named;
  for (const auto& [name, tensor] : checkpoint_->tensors()) {
    if (claimed_.contains(name) || recomputed(name)) continue;
    if (++unclaimed <= kNamed) named += (unclaimed > 1 ? ", " : "") + printable(name);
  }
  if (unclaimed > 0)
    fail("{}: {} tensors have no place in this model: {}{}", checkpoint_->place(), unclaimed, named,
         unclaimed > kNamed ? ", ..." : "");
  const auto converted = std::ranges::count_if(matrices_, &PlannedMatrix::converted);
  if (converted > 0) {
    const auto& first = *std::ranges::find_if(matrices_, &PlannedMatrix::converted);
    log::info("converted weights={} of={} first={} to={} reason=\"pieces differ in format or cut scale blocks\"",
              converted, matrices_.size(), first.name, name_of(first.format));
  }
}

int64_t WeightPlan::bytes() const {
  int64_t total = 0;
  for (const PlannedMatrix& planned : matrices_) total += planned.bytes();
  for (const PlannedVector& planned : vectors_) total += planned.elements() * static_cast<int64_t>(sizeof(float));
  return total;
}

}  // namespace braid
