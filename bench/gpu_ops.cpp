// Times the ops of the GPU executor at the shapes of real models, over rotating buffers: one line of JSON each.
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <functional>
#include <string_view>
#include <vector>

#include "api/device.h"
#include "base/rng.h"

namespace braid {
namespace {

constexpr size_t kRotated = size_t{256} << 20;  // bytes that must pass between two uses of a buffer: beyond every cache

// What a kernel is measured by.
struct Report {
  std::string name, shape, format;
  double bytes = 0, flops = 0;  // exactly one of them is counted
};

class Bench {
 public:
  Bench(Executor& executor, std::string_view only)
      : executor_(executor), only_(only), limits_(executor.measure_limits(0)) {
    std::printf("{\"name\": \"limits\", \"copy_gbs\": %.0f, \"bf16_tflops\": %.0f}\n",
                limits_.copy_bytes_per_second * 1e-9, limits_.flops_per_second * 1e-12);
    random_.resize(size_t{64} << 20);
    for (size_t i = 0; i < random_.size(); i += 4) {
      // bf16 pairs in [-1, 1): also valid E4M3 codes once the NaN codes are masked out.
      const float value = 2 * uniform(1, i, 0) - 1, other = 2 * uniform(1, i, 1) - 1;
      const uint16_t halves[2] = {float_to_bf16(value), float_to_bf16(other)};
      std::memcpy(random_.data() + i, halves, 4);
    }
    codes_ = random_;
    for (std::byte& code : codes_) code &= std::byte{0xBF};
    scales_.assign(1 << 20, 0.01f);
  }

  bool wants(std::string_view name) const { return name.find(only_) != std::string_view::npos; }

  Tensor numbers(DType type, std::initializer_list<int64_t> shape, float largest = 0.1f) {
    Tensor out(nullptr, type, shape);
    memory_.push_back(executor_.allocate(static_cast<size_t>(out.bytes())));
    out.data = memory_.back().data();
    if (type == DType::F32) {
      std::vector<float> values(static_cast<size_t>(std::min<int64_t>(out.elements(), 1 << 20)));
      for (size_t i = 0; i < values.size(); ++i) values[i] = largest * (2 * uniform(2, i, 0) - 1);
      fill(out, std::as_bytes(std::span(values)));
    } else {
      fill(out, random_);
    }
    return out;
  }
  Tensor integers(const std::vector<int32_t>& values) {
    Tensor out(nullptr, DType::I32, {std::ssize(values)});
    memory_.push_back(executor_.allocate(static_cast<size_t>(out.bytes())));
    out.data = memory_.back().data();
    executor_.upload(out, std::as_bytes(std::span(values)));
    return out;
  }
  const Weight* weight(const Format& format, int64_t rows, int64_t columns, int64_t count = 1) {
    Weight plain{.format = format, .count = count, .rows = rows, .columns = columns};
    const bool coded = !std::holds_alternative<Dense>(format);
    const int64_t most = std::ssize(random_) / row_bytes(format, columns) / 128 * 128;
    for (int64_t matrix = 0; matrix < count; ++matrix)
      for (int64_t first = 0; first < rows; first += most)
        plain.segments.push_back({.data = coded ? codes_.data() : random_.data(),
                                  .scales = coded ? scales_.data() : nullptr,
                                  .rows = std::min(most, rows - first),
                                  .groups = group_bytes(format, columns) > 0 ? codes_.data() : nullptr});
    weights_.push_back(std::make_unique<Weight>(executor_.pack(std::move(plain))));
    return weights_.back().get();
  }
  // Rows of `sequences` sequences of `rows` rows each from position `first` on.
  Rows rows(int32_t sequences, int32_t rows, int32_t first) {
    std::vector<int32_t> starts{0}, positions, slots;
    for (int32_t s = 0; s < sequences; ++s) {
      for (int32_t r = 0; r < rows; ++r) positions.push_back(first + r);
      starts.push_back(starts.back() + rows), slots.push_back(s);
    }
    return {.tokens = sequences * rows,
            .sequences = sequences,
            .thin = rows == 1 ? sequences : 0,
            .longest = rows,
            .context = first + rows,
            .starts = integers(starts),
            .positions = integers(positions),
            .slots = integers(slots)};
  }

  // Runs the ops in turn, so many that a batch takes some milliseconds, and reports the median batch.
  void time(const Report& report, const std::vector<Op>& ops) {
    const auto batch = [&](size_t count) {
      executor_.wait();
      const auto start = std::chrono::steady_clock::now();
      for (size_t i = 0; i < count; ++i) executor_.submit(ops[i % ops.size()]);
      executor_.wait();
      return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count() /
             static_cast<double>(count);
    };
    const double guess = batch(ops.size());
    const auto count = static_cast<size_t>(std::clamp(5e-3 / guess, 1.0, 200.0)) * ops.size();
    // Clocks rise, and settle under the load, within a tenth of a second.
    constexpr double kWarmUp = 0.1;
    for (double warm = 0; warm < kWarmUp;) warm += batch(count) * static_cast<double>(count);
    std::vector<double> seconds;
    for (int i = 0; i < 7; ++i) seconds.push_back(batch(count));
    std::ranges::sort(seconds);
    const double median = seconds[3], rate = (report.bytes + report.flops) / median;
    const double limit = report.bytes > 0 ? limits_.copy_bytes_per_second : limits_.flops_per_second;
    std::printf(
        "{\"name\": \"%s\", \"shape\": \"%s\", \"format\": \"%s\", \"median_ms\": %.4f, \"rate\": %.1f, "
        "\"unit\": \"%s\", \"share\": %.3f}\n",
        report.name.c_str(), report.shape.c_str(), report.format.c_str(), median * 1e3,
        rate * (report.bytes > 0 ? 1e-9 : 1e-12), report.bytes > 0 ? "GB/s" : "TFLOP/s", rate / limit);
    std::fflush(stdout);
    memory_.clear(), weights_.clear();
  }

 private:
  void fill(Tensor to, std::span<const std::byte> pattern) {
    const Tensor bytes(to.data, DType::U8, {to.bytes()});
    for (int64_t at = 0; at < to.bytes(); at += std::ssize(pattern)) {
      const int64_t count = std::min<int64_t>(std::ssize(pattern), to.bytes() - at);
      executor_.upload(bytes.slice_rows(at, count), pattern.first(static_cast<size_t>(count)));
    }
  }

  Executor& executor_;
  std::string_view only_;
  Limits limits_;
  std::vector<std::byte> random_, codes_;
  std::vector<float> scales_;
  std::vector<Memory> memory_;
  std::vector<std::unique_ptr<Weight>> weights_;
};

struct ProductShape {
  int64_t tokens, rows, columns;
  Format format;
  bool gated = false, exact = false;
};

void time_product(Bench& bench, const ProductShape& s) {
  const std::string name = s.gated ? "gated_linear" : "linear";
  if (!bench.wants(name)) return;
  const DType type = s.exact ? DType::F32 : DType::BF16;
  const Tensor x = bench.numbers(type, {s.tokens, s.columns});
  const Tensor out = bench.numbers(type, {s.tokens, s.gated ? s.rows / 2 : s.rows});
  std::vector<Op> ops;
  double bytes = 0;
  const bool thin = s.tokens <= 128;
  for (size_t rotated = 0; rotated < (thin ? 2 * kRotated : 1) && ops.size() < 64;) {
    const Weight* weight = bench.weight(s.format, s.rows, s.columns);
    rotated += static_cast<size_t>(weight->bytes()), bytes = static_cast<double>(weight->bytes());
    if (s.gated)
      ops.push_back(GatedLinear{.out = out, .x = x, .gate_up = weight});
    else
      ops.push_back(Linear{.x = x, .targets = {{{.out = out, .weight = weight}}}, .exact = s.exact});
  }
  const auto flops = 2.0 * static_cast<double>(s.tokens * s.rows * s.columns);
  bench.time({name, fmt::format("{} x {} -> {}{}", s.tokens, s.columns, s.rows, s.exact ? ", exact" : ""),
              name_of(s.format), thin ? bytes : 0, thin ? 0 : flops},
             ops);
}

void time_delta(Bench& bench, int32_t sequences, int32_t rows, int32_t heads) {
  if (!bench.wants("delta_rule")) return;
  const int64_t size = 128, tokens = int64_t{sequences} * rows, key_heads = heads >= 16 ? 16 : heads;
  const int64_t channels = (2 * key_heads + heads) * size;
  const auto f32 = [&](std::initializer_list<int64_t> shape) { return bench.numbers(DType::F32, shape); };
  const auto bf16 = [&](std::initializer_list<int64_t> shape) { return bench.numbers(DType::BF16, shape); };
  const DeltaRule op{.out = bf16({tokens, heads * size}),
                     .qkv = bf16({tokens, channels}),
                     .z = bf16({tokens, heads * size}),
                     .b = f32({tokens, heads}),
                     .a = f32({tokens, heads}),
                     .conv = f32({channels, 4}),
                     .a_log = f32({heads}),
                     .dt_bias = f32({heads}),
                     .norm = f32({size}),
                     .conv_state = f32({sequences, 3, channels}),
                     .state = f32({sequences, heads, size, size}),
                     .key_heads = static_cast<int32_t>(key_heads),
                     .value_heads = heads,
                     .rows = bench.rows(sequences, rows, 64)};
  const auto state = 2.0 * static_cast<double>(op.state.bytes());
  const auto flops = 4.0 * static_cast<double>(size * size * tokens * heads);
  bench.time({"delta_rule", fmt::format("{} x {} rows, {} heads of 128", sequences, rows, heads), "f32 state",
              rows == 1 ? state : 0, rows == 1 ? 0 : flops},
             {op});
}

struct AttentionShape {
  int32_t sequences, rows, first;
  int64_t heads, kv_heads, size;
};

void time_attention(Bench& bench, const AttentionShape& s) {
  if (!bench.wants("paged_attention")) return;
  constexpr int64_t kPage = 16;
  const int64_t tokens = int64_t{s.sequences} * s.rows, pages = (s.first + s.rows + kPage - 1) / kPage;
  std::vector<int32_t> table;
  for (int64_t page = 0; page < s.sequences * pages; ++page) table.push_back(static_cast<int32_t>(page));
  const PagedCache cache{.keys = bench.numbers(DType::BF16, {s.sequences * pages, kPage, s.kv_heads, s.size}),
                         .values = bench.numbers(DType::BF16, {s.sequences * pages, kPage, s.kv_heads, s.size}),
                         .table = bench.integers(table).reshape({s.sequences, pages})};
  const PagedAttention op{.out = bench.numbers(DType::BF16, {tokens, s.heads, s.size}),
                          .q = bench.numbers(DType::BF16, {tokens, s.heads, s.size}),
                          .scale = 0.06f,
                          .rows = bench.rows(s.sequences, s.rows, s.first),
                          .cache = cache};
  const auto bytes = static_cast<double>(cache.keys.bytes() + cache.values.bytes());
  const double pairs = static_cast<double>(tokens) * (s.first + (s.rows + 1) / 2.0);
  bench.time({"paged_attention",
              fmt::format("{} x {} rows from {}, {} heads, {} kv, {}", s.sequences, s.rows, s.first, s.heads,
                          s.kv_heads, s.size),
              "bf16", s.rows == 1 ? bytes : 0, s.rows == 1 ? 0 : 4 * pairs * static_cast<double>(s.heads * s.size)},
             {op});
}

void time_experts(Bench& bench, int32_t tokens, const Format& format) {
  if (!bench.wants("experts")) return;
  constexpr int64_t kWidth = 2048, kInner = 512, kExperts = 256, kChosen = 8;
  Experts op{.out = bench.numbers(DType::BF16, {tokens, kWidth}),
             .x = bench.numbers(DType::BF16, {tokens, kWidth}),
             .weights = bench.numbers(DType::F32, {tokens, kChosen}),
             .gate_up = bench.weight(format, 2 * kInner, kWidth, kExperts),
             .down = bench.weight(format, kWidth, kInner, kExperts)};
  // Few rows take other experts every time, so that these come from device memory.
  std::vector<Op> ops;
  std::vector<int32_t> sorted;
  for (int32_t turn = 0; turn < std::clamp(31 / tokens, 1, 31); ++turn) {
    std::vector<int32_t> chosen;
    for (int32_t t = 0; t < tokens; ++t)
      for (int32_t s = 0; s < kChosen; ++s) chosen.push_back((t * 37 + s * 31 + t / 7 + turn) % kExperts);
    op.chosen = bench.integers(chosen).reshape({tokens, kChosen});
    ops.push_back(op), sorted = chosen;
  }
  std::ranges::sort(sorted);
  const auto distinct = std::ranges::distance(sorted.begin(), std::unique(sorted.begin(), sorted.end()));
  const double each = static_cast<double>(op.gate_up->bytes() + op.down->bytes()) / kExperts;
  const bool thin = tokens <= 512;
  bench.time({"experts", fmt::format("{} x top-8 of 256, 2048 -> 2 x 512 -> 2048", tokens), name_of(format),
              thin ? each * static_cast<double>(distinct) : 0,
              thin ? 0 : 6.0 * static_cast<double>(tokens) * kChosen * kWidth * kInner},
             ops);
}

void time_sampling(Bench& bench, int32_t rows, const SampleRow& how, std::string_view name) {
  if (!bench.wants("sample")) return;
  constexpr int64_t kVocabulary = 151936;
  const Tensor logits = bench.numbers(DType::F32, {rows, kVocabulary}, 8.0f);
  std::vector<int32_t> params;
  for (int32_t r = 0; r < rows; ++r) {
    params.resize(params.size() + 8);
    std::memcpy(params.data() + params.size() - 8, &how, sizeof(how));
  }
  const Tensor raw = bench.integers(params);
  const Sample op{.tokens = bench.numbers(DType::F32, {rows}),
                  .logprobs = bench.numbers(DType::F32, {rows}),
                  .logits = logits,
                  .params = Tensor(raw.data, DType::U8, {rows, 32})};
  bench.time(
      {"sample", fmt::format("{} x {}, {}", rows, kVocabulary, name), "f32", static_cast<double>(logits.bytes())},
      {op});
}

void run_all(Bench& bench) {
  const Format bf16 = Dense{DType::BF16}, fp8 = Fp8Block{};
  const Format nvfp4 = Nvfp4{}, int8 = Int8Row{}, fp8_row = Fp8Row{};
  for (const Format& format : {bf16, fp8, nvfp4})
    for (const int64_t tokens : {1, 8, 16, 32}) time_product(bench, {tokens, 16384, 5120, format});
  for (const Format& format : {int8, fp8_row})
    for (const int64_t tokens : {1, 16}) time_product(bench, {tokens, 16384, 5120, format});
  for (const Format& format : {fp8, nvfp4, int8, fp8_row}) time_product(bench, {128, 16384, 5120, format});
  time_product(bench, {1, 34816, 5120, fp8, true});
  time_product(bench, {1, 5120, 17408, fp8}), time_product(bench, {1, 5120, 6144, fp8});
  time_product(bench, {1, 2048, 2048, fp8}), time_product(bench, {1, 2048, 4096, fp8});
  time_product(bench, {1, 12288, 2048, fp8}), time_product(bench, {1, 12288, 2048, nvfp4});
  time_product(bench, {1, 2048, 4096, nvfp4}), time_product(bench, {1, 256, 2048, bf16});
  time_product(bench, {128, 34816, 5120, fp8, true});
  time_product(bench, {1024, 34816, 5120, fp8});
  for (const Format& format : {fp8, bf16, nvfp4, int8, fp8_row}) time_product(bench, {8192, 34816, 5120, format});
  for (const int64_t tokens : {1, 8, 32, 64, 128, 256, 512, 8192})
    time_product(bench, {.tokens = tokens, .rows = 256, .columns = 2048, .format = bf16, .exact = true});
  time_product(bench, {.tokens = 8192, .rows = 32, .columns = 2048, .format = bf16, .exact = true});
  time_delta(bench, 128, 1, 48), time_delta(bench, 1, 1, 48);
  time_delta(bench, 1, 1024, 48), time_delta(bench, 1, 8192, 48), time_delta(bench, 1, 8192, 8);
  time_delta(bench, 32, 8192, 32);
  time_attention(bench, {1, 8192, 0, 16, 2, 256}), time_attention(bench, {1, 8192, 0, 32, 8, 128});
  time_attention(bench, {1, 1024, 31744, 16, 2, 256}), time_attention(bench, {1, 8192, 0, 32, 32, 64});
  for (const int32_t sequences : {1, 32}) time_attention(bench, {sequences, 1, 32767, 16, 2, 256});
  for (const int32_t sequences : {1, 128}) time_attention(bench, {sequences, 1, 1023, 16, 2, 256});
  for (const int32_t tokens : {1, 8, 32, 128, 4096}) time_experts(bench, tokens, fp8);
  time_experts(bench, 4096, bf16);
  time_sampling(bench, 1, {}, "greedy");
  time_sampling(bench, 1, {.temperature = 0.7f, .top_k = 20, .top_p = 0.8f}, "top-k 20, top-p 0.8");
  time_sampling(bench, 1, {.temperature = 1.0f}, "temperature 1");
  time_sampling(bench, 128, {.temperature = 0.7f, .top_k = 20, .top_p = 0.8f}, "top-k 20, top-p 0.8");
}

}  // namespace
}  // namespace braid

// gpu_ops [WORD]: only the ops whose name holds the word.
int main(int count, char** words) {
  try {
    const auto executor = braid::make_gpu_executor({});
    if (executor == nullptr) {
      std::fprintf(stderr, "no GPU: %s\n", braid::describe_devices().c_str());
      return 1;
    }
    braid::Bench bench(*executor, count > 1 ? words[1] : "");
    braid::run_all(bench);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
  return 0;
}
