// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <map>
#include <numeric>
#include <string>
#include <utility>

#include "base/error.h"
#include "base/progress.h"
#include "base/rng.h"
#include "weights/table.h"
#include "weights/vectors.h"

namespace braid {
namespace {

// Streams of the generator, so that no two uses draw the same numbers.
enum class Use : uint32_t { Codes, Scales, Vector, Groups };

// Numbers of 16 bits by position, the same for the same seed, use and weight.
struct Draw {
  static constexpr size_t kBlock = 8;
  uint64_t seed;
  Use use;
  size_t weight;

  // Calls take(position, number) for positions [0, count).
  void each(size_t count, auto&& take) const {
    for (size_t at = 0; at < count; at += kBlock) {
      const uint64_t block = at / kBlock;
      const auto bits = philox({static_cast<uint32_t>(block), static_cast<uint32_t>(block >> 32),
                                static_cast<uint32_t>(use), static_cast<uint32_t>(weight)},
                               seed);
      for (size_t i = 0; i < std::min(kBlock, count - at); ++i)
        take(at + i, static_cast<uint16_t>(bits[i / 2] >> i % 2 * 16));
    }
  }
};

// Even in (-1, 1).
float centred(uint16_t number) { return (static_cast<float>(number) - 32767.5f) / 32768.0f; }

// A uniform distribution over (-w, w) has the deviation w / sqrt(3).
float half_width(int64_t columns) { return std::sqrt(3.0f / static_cast<float>(columns)); }

template <typename T>
void write(std::vector<std::byte>& codes, size_t at, T value) {
  std::memcpy(codes.data() + at * sizeof(T), &value, sizeof(T));
}

void fill(const Dense& format, float width, const Draw& draw, OwnedWeight& owned) {
  const size_t count = owned.codes.size() / static_cast<size_t>(size_of(format.dtype));
  std::vector<std::byte>& codes = owned.codes;
  if (format.dtype == DType::BF16) {
    draw.each(count, [&](size_t at, uint16_t number) { write(codes, at, float_to_bf16(width * centred(number))); });
  } else if (format.dtype == DType::F16) {
    draw.each(count, [&](size_t at, uint16_t number) { write(codes, at, float_to_f16(width * centred(number))); });
  } else {
    CHECK(format.dtype == DType::F32, "{}", name_of(format.dtype));
    draw.each(count, [&](size_t at, uint16_t number) { write(codes, at, width * centred(number)); });
  }
}

void fill(const Fp8Block&, float width, const Draw& draw, OwnedWeight& owned) {
  static const auto even_codes = [] {  // the E4M3 code for each byte, values even in [-448, 448]
    std::array<uint8_t, 256> codes{};
    for (size_t i = 0; i < codes.size(); ++i)
      codes[i] = float_to_e4m3((static_cast<float>(i) - 127.5f) / 127.5f * 448.0f);
    return codes;
  }();
  const size_t count = owned.codes.size();
  draw.each((count + 1) / 2, [&](size_t at, uint16_t number) {
    owned.codes[2 * at] = std::byte{even_codes[number & 0xFF]};
    if (2 * at + 1 < count) owned.codes[2 * at + 1] = std::byte{even_codes[number >> 8]};
  });
  // Scales differ by up to three times between blocks, so that a wrong one shows: u even in (-1, 1) has
  // E[(1 + u/2)^2] = 13/12.
  const float scale = width / 448.0f / std::sqrt(13.0f / 12.0f);
  Draw{draw.seed, Use::Scales, draw.weight}.each(owned.scales.size(), [&](size_t at, uint16_t number) {
    owned.scales[at] = scale * (1 + 0.5f * centred(number));
  });
}

void fill_bytes(std::vector<std::byte>& bytes, const Draw& draw, const auto& byte) {
  draw.each((bytes.size() + 1) / 2, [&](size_t at, uint16_t number) {
    bytes[2 * at] = byte(number & 0xFF);
    if (2 * at + 1 < bytes.size()) bytes[2 * at + 1] = byte(number >> 8);
  });
}

// As above; the codes' deviation is that of even values up to the largest.
void fill_rows(float width, float most, const Draw& draw, OwnedWeight& owned) {
  const float scale = width / most / std::sqrt(13.0f / 12.0f);
  Draw{draw.seed, Use::Scales, draw.weight}.each(owned.scales.size(), [&](size_t at, uint16_t number) {
    owned.scales[at] = scale * (1 + 0.5f * centred(number));
  });
}

void fill(const Fp8Row&, float width, const Draw& draw, OwnedWeight& owned) {
  fill_bytes(owned.codes, draw, [](int number) {
    return std::byte{float_to_e4m3((static_cast<float>(number) - 127.5f) / 127.5f * 448.0f)};
  });
  fill_rows(width, 448, draw, owned);
}

void fill(const Int8Row&, float width, const Draw& draw, OwnedWeight& owned) {
  fill_bytes(owned.codes, draw, [](int number) { return static_cast<std::byte>(std::max(number - 128, -127)); });
  fill_rows(width, 127, draw, owned);
}

// Codes of all values alike have a mean square of 8.56; scales of groups are 1, 1.5 or 2, whose mean square is 2.4.
void fill(const Nvfp4&, float width, const Draw& draw, OwnedWeight& owned) {
  fill_bytes(owned.codes, draw, [](int number) { return static_cast<std::byte>(number); });
  fill_bytes(owned.groups, {draw.seed, Use::Groups, draw.weight},
             [](int number) { return static_cast<std::byte>(0x38 + 4 * (number % 3)); });
  std::ranges::fill(owned.scales, width / std::sqrt(3.0f * 8.56f * 2.4f));
}

OwnedWeight random_matrix(const PlannedMatrix& planned, uint64_t seed, size_t index) {
  const Format& format = planned.format;
  const int64_t columns = planned.columns;
  OwnedWeight owned;
  int64_t scales = 0;
  for (const Piece& piece : planned.pieces) scales += scale_count(format, piece.rows, columns);
  owned.codes.resize(static_cast<size_t>(planned.count * planned.rows * row_bytes(format, columns)));
  owned.scales.resize(static_cast<size_t>(scales));
  owned.groups.resize(static_cast<size_t>(planned.count * planned.rows * group_bytes(format, columns)));
  const Draw draw{seed, Use::Codes, index};
  std::visit([&](const auto& coding) { fill(coding, half_width(columns), draw, owned); }, format);
  owned.weight = {.format = format, .count = planned.count, .rows = planned.rows, .columns = columns};
  const std::byte* code = owned.codes.data();
  const float* scale = owned.scales.data();
  const std::byte* group = owned.groups.data();
  for (const Piece& piece : planned.pieces) {
    owned.weight.segments.push_back({.data = code,
                                     .scales = scales > 0 ? scale : nullptr,
                                     .rows = piece.rows,
                                     .groups = owned.groups.empty() ? nullptr : group});
    group += piece.rows * group_bytes(format, columns);
    code += piece.rows * row_bytes(format, columns);
    scale += scale_count(format, piece.rows, columns);
  }
  return owned;
}

// Large matrices for an executor that copies what it packs: they repeat one drawn block of their format and columns,
// which saves the host's memory and time.
class Repeating {
 public:
  static constexpr int64_t kLarge = int64_t{4} << 20;  // bytes of a matrix that repeats, and about of the block

  explicit Repeating(uint64_t seed) : seed_(seed) {}

  Weight make(const PlannedMatrix& planned) {
    const WeightSegment& block = block_of(planned.format, planned.columns);
    Weight weight{.format = planned.format, .count = planned.count, .rows = planned.rows, .columns = planned.columns};
    for (const Piece& piece : planned.pieces)
      for (int64_t row = 0; row < piece.rows; row += block.rows) {
        WeightSegment& segment = weight.segments.emplace_back(block);
        segment.rows = std::min(block.rows, piece.rows - row);
      }
    return weight;
  }

 private:
  const WeightSegment& block_of(const Format& format, int64_t columns) {
    const auto [entry, absent] = blocks_.try_emplace({name_of(format), columns});
    if (absent) {
      const int64_t unit = std::lcm(row_alignment(format), int64_t{128});
      const int64_t rows = std::max<int64_t>(kLarge / row_bytes(format, columns) / unit, 1) * unit;
      PlannedMatrix planned{.rows = rows, .columns = columns, .format = format};
      planned.pieces.push_back({.rows = rows});
      entry->second = random_matrix(planned, seed_, blocks_.size());
    }
    return entry->second.weight.segments.front();
  }

  uint64_t seed_;
  std::map<std::pair<std::string, int64_t>, OwnedWeight> blocks_;
};

// Norms: 1 +- 0.1. Filters (two dimensions or more): deviation taps^-1/2. Everything else: +- 0.1.
std::vector<float> random_vector(const PlannedVector& planned, uint64_t seed, size_t index) {
  if (!planned.constant.empty()) return planned.constant;
  const bool norm =
      planned.transform == PlannedVector::Transform::AddOne || planned.name.find("norm") != std::string::npos;
  const float centre = norm ? 1.0f : 0.0f;
  const float width = planned.shape.size() > 1 ? half_width(planned.shape.back()) : 0.1f;
  std::vector<float> values(static_cast<size_t>(planned.elements()));
  Draw{seed, Use::Vector, index}.each(
      values.size(), [&](size_t at, uint16_t number) { values[at] = centre + width * centred(number); });
  return values;
}

}  // namespace

WeightTable random_weights(const WeightPlan& plan, Executor& executor, uint64_t seed) {
  WeightTable table;
  Progress progress("drawing weights", static_cast<uint64_t>(plan.bytes()), Progress::Unit::Bytes);
  table.vectors_ = upload_vectors(
      plan, executor, [&](const PlannedVector& planned, size_t index) { return random_vector(planned, seed, index); },
      table.memory_);
  Repeating repeating(seed);
  for (size_t i = 0; i < plan.matrices().size(); ++i) {
    const PlannedMatrix& planned = plan.matrices()[i];
    const bool repeats = executor.pack_copies() && planned.bytes() > Repeating::kLarge;
    OwnedWeight owned;
    if (repeats)
      owned.weight = repeating.make(planned);
    else
      owned = random_matrix(planned, seed, i);
    table.matrices_.push_back(with_context(planned.name, [&] { return executor.pack(std::move(owned.weight)); }));
    if (!executor.pack_copies()) table.owned_.push_back(std::move(owned));
    progress.advance(static_cast<uint64_t>(planned.bytes()));
  }
  table.bytes_ = plan.bytes();
  return table;
}

}  // namespace braid
