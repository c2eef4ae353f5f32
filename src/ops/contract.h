// What the op contract tests share: executors to hold to account, and a case with generated arguments in their memory.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "ops/executor.h"
#include "ops/wrappers/expected.h"

namespace braid {

// An executor and how exactly it computes.
struct Subject {
  std::string name;
  std::unique_ptr<Executor> executor;
  Precision precision;
};
// The reference, and with exact and fast operands each: the CPU executor for each instruction set that this machine
// has, and the GPU where there is one.
std::span<Subject> subjects();
// The reference alone: for statements about the contract itself.
Subject& reference_subject();

// Every coding of weights, smallest blocks included.
std::vector<Format> all_formats();

struct SequenceRows {
  int32_t first_position = 0;
  int32_t rows = 1;
  int32_t slot = 0;
};

// A page of `tokens` positions; keys and values of sequences whose rows are given by the case's rows.
struct CacheShape {
  int64_t page_size = 16, heads = 1, size = 16;
  int64_t from = 0;  // positions before this one are poisoned too, as a window may have freed them
};

// Arguments of one op. Everything lies in one block that is poisoned (bytes 0xFF: NaN as a float) where nothing else
// was put, so reading beside an argument shows in the result, and writing beside an output is seen by `run`.
class Case {
 public:
  explicit Case(Subject& subject, uint64_t seed = 1, size_t bytes = size_t{16} << 20);

  DType activation_type() const { return subject_.executor->activation_type(); }
  DType cache_type() const { return subject_.executor->cache_type(); }

  // Uniform in [-size, size).
  Tensor numbers(std::initializer_list<int64_t> shape, double size = 1, DType type = DType::F32);
  // The same [rows, columns] as part of wider rows.
  Tensor strided_numbers(int64_t rows, int64_t columns, double size = 1, DType type = DType::F32);
  Tensor floats(std::initializer_list<int64_t> shape, const std::vector<float>& values);
  Tensor integers(std::initializer_list<int64_t> shape, const std::vector<int32_t>& values);
  Tensor poison(DType type, std::initializer_list<int64_t> shape);
  Tensor strided_poison(DType type, int64_t rows, int64_t columns);
  template <typename T>
  Tensor records(const std::vector<T>& values) {
    Tensor out = poison(DType::U8, {static_cast<int64_t>(values.size()), static_cast<int64_t>(sizeof(T))});
    if (!values.empty()) std::memcpy(out.data, values.data(), values.size() * sizeof(T));
    return out;
  }
  // Random weights of about unit gain, in segments of unequal length where the format allows that.
  const Weight* weight(const Format& format, int64_t rows, int64_t columns, int64_t count = 1);
  const Weight* weight(const std::vector<float>& values, int64_t rows, int64_t columns);

  Rows rows(const std::vector<SequenceRows>& sequences);
  // Pages in random order. Positions before each sequence's end hold numbers, all others poison; without `filled`, the
  // positions of this pass do too.
  PagedCache cache(const CacheShape& shape, const std::vector<SequenceRows>& sequences, bool filled, DType type);

  int64_t random(int64_t below);
  double random(double low, double high);

  // Runs the op and compares everything it writes with what it should write, and that nothing else changed. Returns
  // what is wrong, or nothing. `before` runs between the two: a change of an argument there must be found.
  std::string run(const Op& op, const std::function<void()>& before = {});
  // Runs `steps`, which together should do what `whole` does.
  std::string run_as(const Op& whole, std::span<const Op> steps, const std::function<void()>& before = {});
  // Runs without looking.
  void just_run(const Op& op) { just_run({&op, 1}); }
  void just_run(std::span<const Op> ops);

 private:
  std::byte* take(size_t bytes);
  void keep(OwnedWeight owned);

  Subject& subject_;
  Memory memory_;
  size_t used_ = 0;
  uint64_t seed_, drawn_ = 0;
  std::vector<std::unique_ptr<OwnedWeight>> plain_;
  std::map<const Weight*, std::unique_ptr<Weight>> packed_;
};

// Holds every subject to `make`, which builds the op in the case of `bytes` it is given; `seed` differs per case.
using MakeOp = std::function<Op(Case&)>;
void hold(const MakeOp& make, uint64_t seed = 1, size_t bytes = size_t{16} << 20);
// Shows that the comparison can fail: `change` picks a number of the op's arguments, which is changed behind the
// comparison's back on every subject.
void plant(const MakeOp& make, const std::function<float*(Op&)>& pick);

}  // namespace braid
