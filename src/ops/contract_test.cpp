// SPDX-License-Identifier: Apache-2.0
#include "ops/contract.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

#include "api/device.h"
#include "base/error.h"
#include "base/rng.h"
#include "cpu/executor.h"
#include "ops/wrappers/listing.h"
#include "reference/executor.h"

namespace braid {

namespace {

std::vector<std::string>& absent() {
  static std::vector<std::string> names;
  return names;
}

std::vector<Subject> make_subjects() {
  using Instructions = CpuOptions::Instructions;
  std::vector<Subject> out;
  out.push_back({"reference", make_reference_executor(), kExactPrecision});
  for (const bool fast : {false, true}) {
    for (const Instructions set : {Instructions::Avx2, Instructions::Avx512}) {
      const std::string name =
          fmt::format("cpu {} {}", fast ? "fast" : "f32", set == Instructions::Avx2 ? "avx2" : "avx512");
      const int threads = fast == (set == Instructions::Avx2) ? 1 : 2;
      try {
        out.push_back({name, make_cpu_executor({.threads = threads, .fast = fast, .instructions = set}),
                       fast ? kBf16Precision : kF32Precision});
      } catch (const Error& error) {
        if (error.kind() != ErrorKind::Usage) throw;
        absent().push_back(name + ": " + error.message());
      }
    }
  }
  for (const bool fast : {false, true}) {
    const std::string name = fast ? "gpu fast" : "gpu f32";
    if (auto gpu = make_gpu_executor({.fast = fast, .host_memory = true}))
      out.push_back({name, std::move(gpu), fast ? kTensorCorePrecision : kF32Precision});
    else
      absent().push_back(name + ": " + describe_devices());
  }
  return out;
}

// Puts packed weights in place of plain ones.
struct Substitute {
  const std::map<const Weight*, std::unique_ptr<Weight>>& packed;
  void in(std::string_view, Tensor&) {}
  void out(std::string_view, Tensor&) {}
  void inout(std::string_view, Tensor&) {}
  void weight(std::string_view, const Weight*& weight) { weight = packed.at(weight).get(); }
  void gathered(std::string_view name, const Weight*& weight, int64_t) { this->weight(name, weight); }
  void chosen(std::string_view name, const Weight*& weight, Tensor&) { this->weight(name, weight); }
  void rows(Rows&) {}
  void cache(PagedCache&, bool) {}
  void slots(std::string_view, Tensor&, Rows&) {}
};

// Calls `visit` with the byte offset and length, from `start` on, of every run of consecutive elements of a tensor.
void for_each_run(const Tensor& tensor, const std::byte* start, const std::function<void(size_t, size_t)>& visit) {
  if (tensor.elements() == 0) return;
  const auto bytes = static_cast<size_t>(tensor.width() * size_of(tensor.dtype));
  for (int64_t run = 0; run < tensor.elements() / tensor.width(); ++run) {
    int64_t rest = run, offset = 0;
    for (int dim = tensor.rank - 1; dim-- > 0; rest /= tensor.size(dim))
      offset += rest % tensor.size(dim) * tensor.stride(dim);
    visit(static_cast<size_t>(tensor.data + offset * size_of(tensor.dtype) - start), bytes);
  }
}

}  // namespace

std::span<Subject> subjects() {
  static std::vector<Subject> all = make_subjects();
  return all;
}

Subject& reference_subject() { return subjects().front(); }

std::vector<Format> all_formats() {
  static_assert(std::variant_size_v<Format> == 5, "list the new format below");
  return {Dense{DType::F32}, Dense{DType::BF16}, Dense{DType::F16}, Fp8Block{}, Fp8Row{}, Int8Row{}, Nvfp4{}};
}

Case::Case(Subject& subject, uint64_t seed, size_t bytes)
    : subject_(subject), memory_(subject.executor->allocate(bytes)), seed_(seed) {}

std::byte* Case::take(size_t bytes) {
  constexpr size_t kGap = 64;  // poison between arguments
  const size_t rounded = (bytes + 2 * kGap - 1) / kGap * kGap;
  CHECK(used_ + rounded <= memory_.bytes(), "a case of more than {} bytes", memory_.bytes());
  std::byte* out = memory_.data() + used_;
  std::memset(out, 0xFF, rounded);
  used_ += rounded;
  return out;
}

int64_t Case::random(int64_t below) { return static_cast<int64_t>(random(0, static_cast<double>(below))); }
double Case::random(double low, double high) {
  return low + (high - low) * static_cast<double>(uniform(seed_, drawn_++, 7));
}

Tensor Case::poison(DType type, std::initializer_list<int64_t> shape) {
  Tensor out(nullptr, type, shape);
  out.data = take(static_cast<size_t>(out.bytes()));
  return out;
}

Tensor Case::strided_poison(DType type, int64_t rows, int64_t columns) {
  return poison(type, {rows, columns + 8}).slice_columns(3, columns);
}

namespace {

void put(const Tensor& tensor, int64_t offset, double value) {
  if (tensor.dtype == DType::F32) tensor.as<float>()[offset] = static_cast<float>(value);
  if (tensor.dtype == DType::BF16) tensor.as<uint16_t>()[offset] = float_to_bf16(static_cast<float>(value));
}

}  // namespace

Tensor Case::numbers(std::initializer_list<int64_t> shape, double size, DType type) {
  Tensor out = poison(type, shape);
  for (int64_t i = 0; i < out.elements(); ++i) put(out, i, random(-size, size));
  return out;
}

Tensor Case::strided_numbers(int64_t rows, int64_t columns, double size, DType type) {
  Tensor out = strided_poison(type, rows, columns);
  for (int64_t row = 0; row < rows; ++row)
    for (int64_t i = 0; i < columns; ++i) put(out, row * out.stride(0) + i, random(-size, size));
  return out;
}

Tensor Case::floats(std::initializer_list<int64_t> shape, const std::vector<float>& values) {
  Tensor out = poison(DType::F32, shape);
  CHECK(out.elements() == std::ssize(values));
  std::ranges::copy(values, out.as<float>());
  return out;
}

Tensor Case::integers(std::initializer_list<int64_t> shape, const std::vector<int32_t>& values) {
  Tensor out = poison(DType::I32, shape);
  CHECK(out.elements() == std::ssize(values), "{} for {} values", out.describe(), values.size());
  std::ranges::copy(values, out.as<int32_t>());
  return out;
}

void Case::keep(OwnedWeight owned) {
  const auto copy = [](const Weight& weight) {
    return Weight{weight.format, weight.count, weight.rows, weight.columns, weight.segments, nullptr};
  };
  plain_.push_back(std::make_unique<OwnedWeight>(std::move(owned)));
  const Weight& weight = plain_.back()->weight;
  packed_[&weight] = std::make_unique<Weight>(subject_.executor->pack(copy(weight)));
}

const Weight* Case::weight(const Format& wanted, int64_t rows, int64_t columns, int64_t count) {
  // Columns that a format cannot have are tested with the plain numbers.
  const Format format = columns % column_alignment(wanted) == 0 ? wanted : Format(Dense{DType::BF16});
  std::vector<float> values(static_cast<size_t>(count * rows * columns));
  const double size = std::sqrt(3.0 / static_cast<double>(columns));
  for (float& value : values) value = static_cast<float>(random(-size, size));
  OwnedWeight owned = encode(format, values, count, rows, columns);
  if (const auto first = (rows / 3 + 1) / row_alignment(format) * row_alignment(format); first > 0 && first < rows) {
    std::vector<WeightSegment> cut;
    for (const WeightSegment& segment : owned.weight.segments) {
      const int64_t scales = scale_count(format, first, columns);
      cut.push_back({segment.data, segment.scales, first, segment.groups});
      cut.push_back({segment.data + first * row_bytes(format, columns),
                     segment.scales == nullptr ? nullptr : segment.scales + scales, rows - first,
                     segment.groups == nullptr ? nullptr : segment.groups + first * group_bytes(format, columns)});
    }
    owned.weight.segments = std::move(cut);
  }
  keep(std::move(owned));
  return &plain_.back()->weight;
}

const Weight* Case::weight(const std::vector<float>& values, int64_t rows, int64_t columns) {
  keep(encode(Dense{DType::F32}, values, 1, rows, columns));
  return &plain_.back()->weight;
}

Rows Case::rows(const std::vector<SequenceRows>& sequences) {
  Rows out;
  std::vector<int32_t> starts{0}, positions, slots;
  bool thin = true;
  for (const SequenceRows& sequence : sequences) {
    thin = thin && sequence.rows == 1;
    out.thin += thin ? 1 : 0;
    out.longest = std::max(out.longest, sequence.rows);
    out.context = std::max<int64_t>(out.context, sequence.first_position + sequence.rows);
    starts.push_back(starts.back() + sequence.rows);
    for (int32_t row = 0; row < sequence.rows; ++row) positions.push_back(sequence.first_position + row);
    slots.push_back(sequence.slot);
  }
  out.tokens = starts.back();
  out.sequences = static_cast<int32_t>(sequences.size());
  out.starts = integers({std::ssize(starts)}, starts);
  out.positions = integers({std::ssize(positions)}, positions);
  out.slots = integers({std::ssize(slots)}, slots);
  return out;
}

PagedCache Case::cache(const CacheShape& shape, const std::vector<SequenceRows>& sequences, bool filled, DType type) {
  const auto count = [&](const SequenceRows& sequence) {
    return (sequence.first_position + sequence.rows + shape.page_size - 1) / shape.page_size;
  };
  int64_t pages = 2, longest = 1;  // two that nobody owns
  for (const SequenceRows& sequence : sequences) pages += count(sequence), longest = std::max(longest, count(sequence));
  std::vector<int32_t> free;
  for (int32_t page = 0; page < pages; ++page) free.insert(free.begin() + random(std::ssize(free) + 1), page);
  PagedCache out;
  out.keys = poison(type, {pages, shape.page_size, shape.heads, shape.size});
  out.values = poison(type, {pages, shape.page_size, shape.heads, shape.size});
  std::vector<int32_t> table(static_cast<size_t>(std::ssize(sequences) * longest), 0);
  for (size_t s = 0; s < sequences.size(); ++s) {
    for (int64_t p = 0; p < count(sequences[s]); ++p, free.pop_back()) table[s * longest + p] = free.back();
    const int64_t end = sequences[s].first_position + (filled ? sequences[s].rows : 0);
    for (int64_t position = shape.from; position < end; ++position) {
      const int64_t page = table[s * longest + position / shape.page_size];
      for (int64_t i = 0; i < shape.heads * shape.size; ++i) {
        const int64_t at = page * out.keys.stride(0) + position % shape.page_size * out.keys.stride(1) + i;
        put(out.keys, at, random(-1, 1));
        put(out.values, at, random(-1, 1));
      }
    }
  }
  out.table = integers({std::ssize(sequences), longest}, table);
  return out;
}

void Case::just_run(std::span<const Op> ops) {
  for (const Op& op : ops) {
    Op packed = op;
    std::visit([&](auto& word) { word.fields(Substitute{packed_}); }, packed);
    subject_.executor->submit(packed);
  }
  subject_.executor->wait();
}

std::string Case::run(const Op& op, const std::function<void()>& before) { return run_as(op, {&op, 1}, before); }

std::string Case::run_as(const Op& whole, std::span<const Op> steps, const std::function<void()>& before) {
  const std::vector<Expected> pieces = expected_of(whole, subject_.precision);
  if (before) before();
  std::vector<std::byte> memory(memory_.data(), memory_.data() + used_);
  for (const Op& step : steps) just_run(step);
  for (const Expected& piece : pieces) {
    if (const Comparison comparison = compare(piece); comparison.failure) return *comparison.failure;
    for_each_run(piece.where, memory_.data(),
                 [&](size_t at, size_t bytes) { std::memcpy(memory.data() + at, memory_.data() + at, bytes); });
  }
  const auto changed = std::ranges::mismatch(memory, std::span(memory_.data(), used_)).in1 - memory.begin();
  return std::cmp_less(changed, used_) ? fmt::format("byte {} of the block changed, which is no output's", changed)
                                       : "";
}

void hold(const MakeOp& make, uint64_t seed, size_t bytes) {
  for (Subject& subject : subjects()) {
    Case arguments(subject, seed, bytes);
    const Op op = make(arguments);
    EXPECT_EQ(arguments.run(op), "") << subject.name << ", seed " << seed << ": " << describe(op);
  }
}

void plant(const MakeOp& make, const std::function<float*(Op&)>& pick) {
  for (Subject& subject : subjects()) {
    Case arguments(subject, 99);
    Op op = make(arguments);
    float* number = pick(op);
    // Operands that may be rounded to bf16 hide small changes of one of many.
    const float change = subject.precision.operand > 0 ? 20.0f : 0.5f;
    const std::string found = arguments.run(op, [&] { *number = *number * 1.25f + change; });
    EXPECT_NE(found, "") << subject.name << " was not caught: " << describe(op);
  }
}

TEST(Contract, ExecutorsThatThisMachineLacksAreNamed) {
  EXPECT_GE(subjects().size(), 1u);
  if (absent().empty()) return;
  GTEST_SKIP() << fmt::format("{}", fmt::join(absent(), "; "));
}

// The net itself: a write beside the output is seen.
TEST(Contract, AWriteBesideTheOutputIsSeen) {
  Case arguments(reference_subject());
  const Tensor wide = arguments.poison(DType::F32, {2, 8}), x = arguments.numbers({2, 4});
  const Op narrow = Copy{.out = wide.slice_columns(0, 4), .x = x};
  EXPECT_EQ(arguments.run(narrow), "");
  const Op beside = Copy{.out = wide.slice_columns(1, 4), .x = x};
  const Op steps[] = {beside, narrow};
  EXPECT_NE(arguments.run_as(narrow, steps), "");
}

}  // namespace braid
