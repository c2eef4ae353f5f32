// Speed of the CPU's products against what the machine can do: copy bandwidth for few rows, multiply-adds for many.
//
// usage: cpu_products [SECONDS]     time per line; prints GB/s of weights read and GFLOP/s
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <immintrin.h>

#include <chrono>
#include <cmath>
#include <cstring>
#include <functional>
#include <thread>

#include "base/error.h"
#include "base/rng.h"
#include "cpu/executor.h"

namespace braid {
namespace {

double seconds_per_line = 0.3;

// The shortest time of one call, among calls that fill the time of a line: other work on the machine only adds.
double measure(const std::function<void()>& work) {
  using Clock = std::chrono::steady_clock;
  double best = INFINITY, spent = 0;
  work();
  while (spent < seconds_per_line) {
    const auto start = Clock::now();
    work();
    const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
    best = std::min(best, seconds);
    spent += seconds;
  }
  return best;
}

void on_threads(int threads, const std::function<void(int)>& work) {
  std::vector<std::thread> others;
  for (int i = 1; i < threads; ++i) others.emplace_back(work, i);
  work(0);
  for (std::thread& thread : others) thread.join();
}

double copy_bandwidth(int threads) {
  const size_t bytes = size_t{256} << 20;
  std::vector<std::vector<char>> from(static_cast<size_t>(threads)), to(static_cast<size_t>(threads));
  for (auto& part : from) part.assign(bytes, 1);
  for (auto& part : to) part.assign(bytes, 1);
  const double seconds = measure([&] {
    on_threads(threads, [&](int i) {
      const auto part = static_cast<size_t>(i);
      std::memcpy(to[part].data(), from[part].data(), bytes);
    });
  });
  return 2.0 * static_cast<double>(bytes) * threads / seconds;
}

__attribute__((target("avx512f"))) double fma_avx512(int64_t rounds) {
  __m512 sums[12];
  for (__m512& sum : sums) sum = _mm512_set1_ps(1.0f);
  const __m512 a = _mm512_set1_ps(0.5f), b = _mm512_set1_ps(0.25f);
  for (int64_t i = 0; i < rounds; ++i)
    for (__m512& sum : sums) sum = _mm512_fmadd_ps(sum, a, b);
  for (int i = 1; i < 12; ++i) sums[0] += sums[i];
  return sums[0][0];
}

__attribute__((target("avx2,fma"))) double fma_avx2(int64_t rounds) {
  __m256 sums[12];
  for (__m256& sum : sums) sum = _mm256_set1_ps(1.0f);
  const __m256 a = _mm256_set1_ps(0.5f), b = _mm256_set1_ps(0.25f);
  for (int64_t i = 0; i < rounds; ++i)
    for (__m256& sum : sums) sum = _mm256_fmadd_ps(sum, a, b);
  for (int i = 1; i < 12; ++i) sums[0] += sums[i];
  return sums[0][0];
}

double fma_peak(int threads, bool wide) {
  const int64_t rounds = 2'000'000;
  volatile double sink = 0;
  const double seconds =
      measure([&] { on_threads(threads, [&](int) { sink = wide ? fma_avx512(rounds) : fma_avx2(rounds); }); });
  return 2.0 * 12 * (wide ? 16 : 8) * static_cast<double>(rounds) * threads / seconds;
}

std::vector<float> numbers(int64_t count, uint64_t key) {
  std::vector<float> out(static_cast<size_t>(count));
  for (size_t i = 0; i < out.size(); ++i) out[i] = uniform(key, i, 0) - 0.5f;
  return out;
}

struct Shape {
  Format format;
  int64_t outputs, inputs;
};

// One of several equal matrices in turn, more bytes than caches hold when `cold`.
void linear(Executor& executor, const Shape& shape, bool cold) {
  const auto values = numbers(shape.outputs * shape.inputs, 1);
  OwnedWeight owned = encode(shape.format, values, 1, shape.outputs, shape.inputs);
  const size_t copies = cold ? (size_t{160} << 20) / owned.codes.size() + 1 : 1;
  std::vector<std::vector<std::byte>> codes(copies, owned.codes);
  std::vector<Weight> weights;
  for (auto& copy : codes) {
    Weight weight{.format = shape.format, .count = 1, .rows = shape.outputs, .columns = shape.inputs};
    weight.segments = {{.data = copy.data(), .scales = owned.scales.data(), .rows = shape.outputs}};
    weights.push_back(executor.pack(std::move(weight)));
  }
  for (const int64_t tokens : {1, 2, 4, 5, 8, 16, 32, 64, 128, 512}) {
    auto x = numbers(tokens * shape.inputs, 2);
    std::vector<float> out(static_cast<size_t>(tokens * shape.outputs));
    size_t turn = 0;
    const double seconds = measure([&] {
      Linear op{.x = Tensor(x.data(), DType::F32, {tokens, shape.inputs})};
      op.targets[0] = {Tensor(out.data(), DType::F32, {tokens, shape.outputs}), &weights[turn++ % copies]};
      executor.submit(op);
      executor.wait();
    });
    const double flops = 2.0 * static_cast<double>(tokens * shape.outputs * shape.inputs);
    fmt::print("  linear {:9} [{} x {}] rows={:<4} {:9.1f} us {:7.1f} GB/s {:7.1f} GFLOP/s\n", name_of(shape.format),
               shape.outputs, shape.inputs, tokens, seconds * 1e6,
               static_cast<double>(weights[0].bytes()) / seconds / 1e9, flops / seconds / 1e9);
  }
}

void experts(Executor& executor, int64_t tokens) {
  const int64_t width = 256, hidden = 128, count = 8, k = 2;
  OwnedWeight gate_up = encode(Fp8Block{}, numbers(count * 2 * hidden * width, 1), count, 2 * hidden, width);
  OwnedWeight down = encode(Fp8Block{}, numbers(count * hidden * width, 2), count, width, hidden);
  OwnedWeight shared_gate_up = encode(Fp8Block{}, numbers(2 * hidden * width, 3), 1, 2 * hidden, width);
  OwnedWeight shared_down = encode(Fp8Block{}, numbers(hidden * width, 4), 1, width, hidden);
  const Weight packed[] = {executor.pack(std::move(gate_up.weight)), executor.pack(std::move(down.weight)),
                           executor.pack(std::move(shared_gate_up.weight)),
                           executor.pack(std::move(shared_down.weight))};
  auto x = numbers(tokens * width, 5);
  std::vector<float> out(x.size()), weights(static_cast<size_t>(tokens * k), 0.5f), gate(static_cast<size_t>(tokens));
  std::vector<int32_t> chosen(weights.size());
  for (size_t t = 0; t < gate.size(); ++t)
    chosen[2 * t] = static_cast<int32_t>(t * 5 % 8), chosen[2 * t + 1] = static_cast<int32_t>((t * 3 + 1 + t * 5) % 8);
  const double seconds = measure([&] {
    for (int i = 0; i < 8; ++i)
      executor.submit(Experts{.out = Tensor(out.data(), DType::F32, {tokens, width}),
                              .x = Tensor(x.data(), DType::F32, {tokens, width}),
                              .chosen = Tensor(chosen.data(), DType::I32, {tokens, k}),
                              .weights = Tensor(weights.data(), DType::F32, {tokens, k}),
                              .gate_up = &packed[0],
                              .down = &packed[1],
                              .shared_gate = Tensor(gate.data(), DType::F32, {tokens, 1}),
                              .shared_gate_up = &packed[2],
                              .shared_down = &packed[3]});
    executor.wait();
  });
  const double flops = 2.0 * static_cast<double>(tokens * (k + 1) * 3 * width * hidden);
  fmt::print("  experts of the pocket model rows={:<4} {:9.1f} us {:7.1f} GFLOP/s\n", tokens, seconds / 8 * 1e6,
             flops * 8 / seconds / 1e9);
}

void all(int threads, CpuOptions::Instructions instructions, bool fast) {
  const bool wide = instructions == CpuOptions::Instructions::Avx512;
  fmt::print("{} threads={} fast={}\n", wide ? "avx512" : "avx2", threads, fast);
  const auto executor = make_cpu_executor({.threads = threads, .fast = fast, .instructions = instructions});
  linear(*executor, {Dense{DType::BF16}, 4096, 4096}, true);
  linear(*executor, {Fp8Block{}, 4096, 4096}, true);
  linear(*executor, {Fp8Block{}, 1536, 256}, false);
  linear(*executor, {Fp8Block{}, 256, 512}, false);
  linear(*executor, {Dense{DType::BF16}, 6144, 256}, false);
  for (const int64_t tokens : {1, 2, 4, 8, 16, 64, 512}) experts(*executor, tokens);
}

}  // namespace
}  // namespace braid

int main(int count, char** arguments) {
  using namespace braid;
  if (count > 1) seconds_per_line = std::stod(arguments[1]);
  using Instructions = CpuOptions::Instructions;
  try {
    for (const int threads : {1, 2})
      fmt::print("copy threads={} {:.1f} GB/s read and written; fma avx512 {:.0f} avx2 {:.0f} GFLOP/s\n", threads,
                 copy_bandwidth(threads) / 1e9, fma_peak(threads, true) / 1e9, fma_peak(threads, false) / 1e9);
    for (const Instructions set : {Instructions::Avx512, Instructions::Avx2})
      for (const int threads : {1, 2}) all(threads, set, true);
  } catch (const Error& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 1;
  }
}
