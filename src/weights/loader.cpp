// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <map>
#include <utility>

#include "base/error.h"
#include "base/log.h"
#include "base/progress.h"
#include "tensor/formats/dense.h"
#include "weights/quantization.h"
#include "weights/table.h"
#include "weights/vectors.h"

namespace braid {
namespace {

template <typename T>
T read_at(const std::byte* from, int64_t index) {
  T value;
  std::memcpy(&value, from + index * static_cast<int64_t>(sizeof(T)), sizeof(T));
  return value;
}

float value_at(const StoredTensor& tensor, int64_t index) {
  const std::byte* data = tensor.bytes.data();
  switch (tensor.dtype) {
    case DType::F32:
      return read_at<float>(data, index);
    case DType::BF16:
      return bf16_to_float(read_at<uint16_t>(data, index));
    case DType::F16:
      return f16_to_float(read_at<uint16_t>(data, index));
    case DType::E4M3:
      return e4m3_to_float(read_at<uint8_t>(data, index));
    case DType::U8: {  // E8M0: a power of two; 255 is its NaN
      const auto exponent = read_at<uint8_t>(data, index);
      return exponent == 255 ? std::nanf("") : std::ldexp(1.0f, exponent - 127);
    }
    default:
      CHECK(false, "{}", tensor.type);
  }
  return 0;
}

void check_finite(const StoredTensor& tensor, int64_t index, float value) {
  if (!std::isfinite(value))
    fail("{}: value {} at index {} is not finite (in {})", printable(tensor.name), value, index, tensor.file);
}

// Loads one planned matrix after the other. Converted scales are kept by tensor, since the pieces of one stored matrix
// share them.
class MatrixLoader {
 public:
  explicit MatrixLoader(const Checkpoint& checkpoint) : checkpoint_(checkpoint) {}

  OwnedWeight load(const PlannedMatrix& planned) {
    OwnedWeight owned;
    owned.weight = {.format = planned.format, .count = planned.count, .rows = planned.rows, .columns = planned.columns};
    owned.codes.resize(static_cast<size_t>(converted_bytes(planned)));
    std::byte* codes = owned.codes.data();
    for (const Piece& piece : planned.pieces) {
      const StoredMatrix stored = find_matrix(checkpoint_, piece.module);
      if (piece.stored == planned.format) {
        owned.weight.segments.push_back(point_at(stored, piece));
        continue;
      }
      convert(stored, piece, std::get<Dense>(planned.format), codes);
      owned.weight.segments.push_back({.data = codes, .rows = piece.rows});
      codes += piece.rows * row_bytes(planned.format, planned.columns);
    }
    return owned;
  }

  std::vector<std::vector<float>> take_scales() {
    std::vector<std::vector<float>> all;
    for (auto& [name, scales] : scales_) all.push_back(std::move(scales));
    return all;
  }

 private:
  static int64_t converted_bytes(const PlannedMatrix& planned) {
    int64_t rows = 0;
    for (const Piece& piece : planned.pieces) rows += piece.stored == planned.format ? 0 : piece.rows;
    return rows * row_bytes(planned.format, planned.columns);
  }

  // The scales of the whole stored tensor, as f32, checked once.
  const float* scales_of(const StoredTensor& scales) {
    const auto known = ready_.find(scales.name);
    if (known != ready_.end()) return known->second;
    const int64_t count = scales.elements();
    const bool usable =
        scales.dtype == DType::F32 && reinterpret_cast<uintptr_t>(scales.bytes.data()) % alignof(float) == 0;
    std::vector<float> converted(static_cast<size_t>(usable ? 0 : count));
    for (int64_t i = 0; i < count; ++i) {
      const float value = value_at(scales, i);
      check_finite(scales, i, value);
      if (!usable) converted[static_cast<size_t>(i)] = value;
    }
    const float* data = reinterpret_cast<const float*>(scales.bytes.data());
    if (!usable) data = (scales_[scales.name] = std::move(converted)).data();
    return ready_[scales.name] = data;
  }

  static bool row_scaled(const Format& format) {
    return !std::holds_alternative<Dense>(format) && !std::holds_alternative<Fp8Block>(format);
  }

  // A scale for each row of all stacked matrices; those of a tensor or a matrix are repeated.
  const float* row_scales(const StoredMatrix& stored, const Format& format) {
    const bool nvfp4 = std::holds_alternative<Nvfp4>(format);
    const StoredTensor& from = nvfp4 ? *stored.multiplier : *stored.scales;
    const int64_t rows = stored.stacked_rows(), each = rows / std::max<int64_t>(from.elements(), 1);
    if (each == 1 && !stored.divides) return scales_of(from);
    const auto known = ready_.find(from.name);
    if (known != ready_.end()) return known->second;
    std::vector<float> all(static_cast<size_t>(rows));
    for (int64_t row = 0; row < rows; ++row) {
      const float value = value_at(from, row / each), scale = stored.divides ? 1 / value : value;
      check_finite(from, row / each, scale);
      all[static_cast<size_t>(row)] = scale;
    }
    return ready_[from.name] = (scales_[from.name] = std::move(all)).data();
  }

  // Rows from `first` on of a stored matrix, as a segment in the stored format; `first` begins a scale block.
  WeightSegment segment_at(const StoredMatrix& stored, const Format& format, int64_t first) {
    WeightSegment segment{.data = stored.weight->bytes.data() + first * row_bytes(format, stored.columns())};
    if (row_scaled(format)) {
      segment.scales = row_scales(stored, format) + first;
      if (group_bytes(format, stored.columns()) > 0)
        segment.groups = stored.scales->bytes.data() + first * group_bytes(format, stored.columns());
    } else if (stored.scales != nullptr) {
      const int64_t rows = stored.rows();
      segment.scales = scales_of(*stored.scales) + first / rows * scale_count(format, rows, stored.columns()) +
                       scale_count(format, first % rows, stored.columns());
    }
    return segment;
  }

  WeightSegment point_at(const StoredMatrix& stored, const Piece& piece) {
    WeightSegment segment = segment_at(stored, piece.stored, piece.first_row);
    segment.rows = piece.rows;
    return segment;
  }

  void convert(const StoredMatrix& stored, const Piece& piece, const Dense& format, std::byte* codes) {
    const int64_t columns = stored.columns(), rows = stored.rows();
    std::vector<float> values(static_cast<size_t>(columns));
    Weight one{.format = piece.stored, .rows = rows, .columns = columns};
    for (int64_t row = piece.first_row; row < piece.first_row + piece.rows; ++row) {
      if (one.segments.empty() || row % rows == 0) {
        one.segments = {segment_at(stored, piece.stored, row - row % rows)};
        one.segments[0].rows = rows;
      }
      decode_row(one, 0, row % rows, values);
      formats::encode(format, values, codes);
      codes += row_bytes(format, columns);
    }
  }

  const Checkpoint& checkpoint_;
  std::map<std::string, const float*> ready_;
  std::map<std::string, std::vector<float>> scales_;
};

std::vector<float> load_vector(const PlannedVector& planned, const Checkpoint& checkpoint) {
  if (!planned.constant.empty()) return planned.constant;
  const StoredTensor& stored = checkpoint.at(planned.name);
  std::vector<float> values(static_cast<size_t>(stored.elements()));
  const float add = planned.transform == PlannedVector::Transform::AddOne ? 1.0f : 0.0f;
  for (size_t i = 0; i < values.size(); ++i) {
    const float value = value_at(stored, static_cast<int64_t>(i));
    check_finite(stored, static_cast<int64_t>(i), value);
    values[i] = value + add;
  }
  return values;
}

}  // namespace

WeightTable load_weights(const WeightPlan& plan, std::shared_ptr<const Checkpoint> checkpoint, Executor& executor) {
  CHECK(checkpoint != nullptr);
  WeightTable table;
  const auto start = std::chrono::steady_clock::now();
  Progress progress("loading", static_cast<uint64_t>(plan.bytes()), Progress::Unit::Bytes);
  table.vectors_ = upload_vectors(
      plan, executor, [&](const PlannedVector& planned, size_t) { return load_vector(planned, *checkpoint); },
      table.memory_);
  MatrixLoader loader(*checkpoint);
  for (const PlannedMatrix& planned : plan.matrices()) {
    OwnedWeight owned = loader.load(planned);
    table.matrices_.push_back(with_context(planned.name, [&] { return executor.pack(std::move(owned.weight)); }));
    if (!owned.codes.empty() && !executor.pack_copies()) table.owned_.push_back(std::move(owned));
    progress.advance(static_cast<uint64_t>(planned.bytes()));
  }
  table.scales_ = loader.take_scales();
  table.checkpoint_ = std::move(checkpoint);
  table.bytes_ = plan.bytes();
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  log::info("loaded bytes={} seconds={:.2f} gb_per_s={:.2f}", plan.bytes(), seconds,
            static_cast<double>(plan.bytes()) / std::max(seconds, 1e-9) / 1e9);
  return table;
}

void check_values(const Checkpoint& checkpoint) {
  const auto has_values = [](const StoredTensor& tensor) {
    return tensor.type == "F8_E8M0" || tensor.dtype == DType::F32 || tensor.dtype == DType::BF16 ||
           tensor.dtype == DType::F16 || tensor.dtype == DType::E4M3;
  };
  uint64_t bytes = 0;
  for (const auto& [name, tensor] : checkpoint.tensors()) bytes += tensor.bytes.size();
  Progress progress("looking for NaN", bytes, Progress::Unit::Bytes);
  for (const auto& [name, tensor] : checkpoint.tensors()) {
    if (has_values(tensor))
      for (int64_t i = 0; i < tensor.elements(); ++i) check_finite(tensor, i, value_at(tensor, i));
    progress.advance(tensor.bytes.size());
  }
}

}  // namespace braid
