// Speed of the CPU's gated delta rule, attention and sampling, on shapes of real models.
//
// usage: cpu_mixers [THREADS]     times are the shortest of many calls: other work on the machine only adds
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <chrono>
#include <cmath>
#include <cstdlib>
#include <functional>
#include <random>
#include <vector>

#include "cpu/executor.h"

namespace braid {
namespace {

double measure(Executor& executor, const Op& op) {
  using Clock = std::chrono::steady_clock;
  double best = INFINITY, spent = 0;
  for (int calls = 0; calls < 5 || spent < 0.5; ++calls) {
    const auto start = Clock::now();
    executor.submit(op);
    executor.wait();
    const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
    best = std::min(best, seconds), spent += seconds;
  }
  return best;
}

// Owns the arguments of an op.
class Arguments {
 public:
  Tensor numbers(std::initializer_list<int64_t> shape, float scale = 1.0f, DType type = DType::F32) {
    Tensor tensor(nullptr, type, shape);
    std::normal_distribution<float> normal(0, scale);
    std::vector<float>& values = floats_.emplace_back(static_cast<size_t>(tensor.elements()));
    tensor.data = reinterpret_cast<std::byte*>(values.data());
    for (size_t i = 0; i < values.size(); ++i) {
      const float number = normal(random_);
      if (type == DType::BF16)
        tensor.as<uint16_t>()[i] = float_to_bf16(number);
      else
        values[i] = number;
    }
    return tensor;
  }
  Tensor integers(std::initializer_list<int64_t> shape, const std::function<int64_t(int64_t)>& value) {
    Tensor tensor(nullptr, DType::I32, shape);
    std::vector<int32_t>& values = integers_.emplace_back(static_cast<size_t>(tensor.elements()));
    tensor.data = reinterpret_cast<std::byte*>(values.data());
    for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<int32_t>(value(static_cast<int64_t>(i)));
    return tensor;
  }
  // `rows` rows of one sequence from `position` on, or of as many sequences when `apart`.
  Rows rows(int64_t count, int64_t position, bool apart) {
    const int64_t sequences = apart ? count : 1;
    Rows rows{.tokens = static_cast<int32_t>(count), .sequences = static_cast<int32_t>(sequences)};
    rows.starts = integers({sequences + 1}, [&](int64_t i) { return apart ? i : i * count; });
    rows.positions = integers({count}, [&](int64_t i) { return apart ? position : position + i; });
    rows.slots = integers({sequences}, [](int64_t i) { return i; });
    rows.context = position + count;
    return rows;
  }

 private:
  std::mt19937 random_;
  std::vector<std::vector<float>> floats_;
  std::vector<std::vector<int32_t>> integers_;
};

void delta_rule(Executor& executor, int64_t tokens, bool apart) {
  constexpr int64_t kKeyHeads = 2, kValueHeads = 4, kSize = 128, kChannels = (2 * kKeyHeads + kValueHeads) * kSize;
  Arguments arguments;
  const auto numbers = [&](std::initializer_list<int64_t> shape) { return arguments.numbers(shape); };
  DeltaRule op;
  op.out = numbers({tokens, kValueHeads * kSize}), op.z = numbers({tokens, kValueHeads * kSize});
  op.qkv = numbers({tokens, kChannels}), op.conv = numbers({kChannels, 4});
  op.b = numbers({tokens, kValueHeads}), op.a = numbers({tokens, kValueHeads});
  op.a_log = numbers({kValueHeads}), op.dt_bias = numbers({kValueHeads}), op.norm = numbers({kSize});
  op.rows = arguments.rows(tokens, 0, apart);
  op.conv_state = numbers({op.rows.sequences, 3, kChannels});
  op.state = numbers({op.rows.sequences, kValueHeads, kSize, kSize});
  op.key_heads = kKeyHeads, op.value_heads = kValueHeads;
  const double seconds = measure(executor, op);
  const auto rows = static_cast<double>(tokens);
  if (apart || tokens == 1) {
    const double bytes = rows * kValueHeads * kSize * kSize * 2 * sizeof(float);
    fmt::print("delta rule, {:4} sequences, one row each   {:9.1f} us  {:6.1f} GB/s of state\n", tokens, seconds * 1e6,
               bytes / seconds * 1e-9);
    return;
  }
  const double chunk = std::min<double>(64, rows);
  const double products = rows * (kValueHeads * (3.0 * kSize * kSize + chunk * kSize) + kKeyHeads * chunk * kSize);
  fmt::print("delta rule, one sequence, {:5} rows           {:9.1f} us  {:6.1f} GFLOP/s\n", tokens, seconds * 1e6,
             2 * products / seconds * 1e-9);
}

struct AttentionShape {
  int64_t heads, groups, size, rows, position;
  DType type = DType::BF16;
};

void attention(Executor& executor, const AttentionShape& shape) {
  constexpr int64_t kPage = 16;
  const int64_t pages = (shape.position + shape.rows) / kPage + 1;
  Arguments arguments;
  PagedAttention op;
  op.out = arguments.numbers({shape.rows, shape.heads, shape.size});
  op.q = arguments.numbers({shape.rows, shape.heads, shape.size});
  op.scale = 1 / std::sqrt(static_cast<float>(shape.size));
  op.rows = arguments.rows(shape.rows, shape.position, false);
  op.cache.keys = arguments.numbers({pages, kPage, shape.groups, shape.size}, 1, shape.type);
  op.cache.values = arguments.numbers({pages, kPage, shape.groups, shape.size}, 1, shape.type);
  op.cache.table = arguments.integers({1, pages}, [](int64_t page) { return page; });
  const double seconds = measure(executor, op);
  const double seen = static_cast<double>(shape.rows) * (shape.position + (shape.rows + 1) / 2.0);
  const double bytes =
      static_cast<double>(2 * (shape.position + shape.rows) * shape.groups * shape.size * size_of(shape.type));
  fmt::print("attention {:2}/{} x {:3}, {:4} rows at {:5}, {:4}    {:9.1f} us  {:6.1f} GFLOP/s {:6.1f} GB/s of cache\n",
             shape.heads, shape.groups, shape.size, shape.rows, shape.position, name_of(shape.type), seconds * 1e6,
             4 * seen * static_cast<double>(shape.heads * shape.size) / seconds * 1e-9, bytes / seconds * 1e-9);
}

void sample(Executor& executor, const SampleRow& how, float spread) {
  constexpr int64_t kVocabulary = 151936;
  Arguments arguments;
  SampleRow row = how;
  Sample op;
  op.logits = arguments.numbers({1, kVocabulary}, spread);
  op.tokens = arguments.integers({1}, [](int64_t) { return 0; });
  op.logprobs = arguments.numbers({1});
  op.params = {&row, DType::U8, {1, sizeof(row)}};
  fmt::print("sample of {} at spread {}: temperature {} top_k {} top_p {} min_p {}   {:9.1f} us\n", kVocabulary, spread,
             how.temperature, how.top_k, how.top_p, how.min_p, measure(executor, op) * 1e6);
}

void measure_all(int threads) {
  const auto executor = make_cpu_executor({.threads = threads});
  for (const int64_t sequences : {1, 16, 64}) delta_rule(*executor, sequences, true);
  for (const int64_t rows : {4, 5, 8, 16, 64, 512}) delta_rule(*executor, rows, false);
  for (const DType type : {DType::BF16, DType::F32}) {
    for (const int64_t position : {500, 2000, 7500}) attention(*executor, {2, 1, 256, 1, position, type});
    attention(*executor, {8, 2, 128, 1, 500, type});
    attention(*executor, {8, 2, 128, 1, 4000, type});
    attention(*executor, {4, 4, 128, 1, 4000, type});
    attention(*executor, {16, 2, 256, 1, 4000, type});
    attention(*executor, {8, 2, 128, 512, 0, type});
    attention(*executor, {8, 2, 128, 256, 2000, type});
  }
  for (const float spread : {1.0f, 3.0f})
    for (const SampleRow& how :
         {SampleRow{}, SampleRow{.temperature = 1}, SampleRow{.temperature = 0.7f, .top_p = 0.95f},
          SampleRow{.temperature = 0.7f, .top_k = 20, .top_p = 0.95f}})
      sample(*executor, how, spread);
}

}  // namespace
}  // namespace braid

int main(int count, char** arguments) { braid::measure_all(count > 1 ? std::atoi(arguments[1]) : 0); }
