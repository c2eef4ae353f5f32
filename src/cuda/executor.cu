// SPDX-License-Identifier: Apache-2.0
#include "cuda/executor.h"

#include <cuda_runtime.h>

#include <functional>
#include <optional>
#include <utility>

#include "base/error.h"
#include "base/log.h"
#include "cuda/common/context.h"
#include "cuda/common/device.h"
#include "cuda/common/error.h"
#include "cuda/graph.h"
#include "cuda/launch.h"
#include "cuda/limits.h"
#include "cuda/packing.h"
#include "cuda/residual/norm_products.h"
#include "cuda/staging.h"

namespace braid::cuda {
namespace {

Coding coding_of(const Format& format) {
  const auto* dense = std::get_if<Dense>(&format);
  if (std::holds_alternative<Int8Row>(format)) return Coding::Int8;
  if (std::holds_alternative<Nvfp4>(format)) return Coding::Nvfp4;
  if (dense == nullptr) return Coding::Fp8;
  switch (dense->dtype) {
    case DType::F32:
      return Coding::F32;
    case DType::BF16:
      return Coding::BF16;
    case DType::F16:
      return Coding::F16;
    default:
      fail("weights of {} have no kernel for CUDA", name_of(dense->dtype));
  }
}

class CudaExecutor final : public Executor {
 public:
  explicit CudaExecutor(const CudaOptions& options)
      : options_(options), context_(options.device, options.fast), staging_(context_.stream()) {}

  std::string_view name() const override { return "cuda"; }
  DType activation_type() const override { return options_.activations; }
  // Products of few, some and many rows have kernels of their own.
  bool rows_independent() const override { return false; }
  DType cache_type() const override { return options_.cache.value_or(options_.fast ? DType::BF16 : DType::F32); }

  void submit(const Op& op) override {
    if (norm_ && joins(op)) return;
    if (const auto* norm = std::get_if<AddNorm>(&op); norm != nullptr && branch_ && adds(*norm)) {
      AddNorm rest = *norm;
      rest.add = {};
      if (rest.out) submit(rest);
      return;
    }
    submit_waiting();
    const auto* norm = std::get_if<AddNorm>(&op);
    if (options_.check_each_op)
      run(op);
    else if (norm != nullptr && may_join(*norm))
      norm_ = *norm;
    else if (may_add(op))
      branch_ = op;
    else
      run(op);
  }

  void wait() override {
    submit_waiting();
    const cudaError_t status = cudaStreamSynchronize(context_.stream());
    if (status != cudaSuccess)
      fail(ErrorKind::Resource, "CUDA: an op before or at the last one, {}, failed: {}", last_,
           cudaGetErrorString(status));
  }

  std::unique_ptr<Recording> record(const std::function<void()>& submit_all) override {
    submit_waiting();
    std::unique_ptr<Graph> graph;
    if (!options_.check_each_op) graph = Graph::capture(context_, [&] { submit_all(), submit_waiting(); });
    if (graph != nullptr) {
      static_cast<void>(graph->launch(context_));
    } else {
      branch_.reset(), norm_.reset(), exact_.reset();  // of ops that will be submitted again
      submit_all();
    }
    return graph;
  }

  bool replay(Recording& recording) override {
    submit_waiting();
    last_ = "a recorded step";
    return static_cast<Graph&>(recording).launch(context_);
  }

  Memory allocate(size_t bytes) override {
    const size_t length = std::max<size_t>(bytes, 1);
    void* memory = nullptr;
    if (options_.host_memory) {
      check(cudaHostAlloc(&memory, length, cudaHostAllocMapped), fmt::format("{} bytes of pinned memory", bytes));
    } else {
      const cudaError_t status = cudaMalloc(&memory, length);
      static_cast<void>(cudaGetLastError());
      size_t free = 0, total = 0;
      cudaMemGetInfo(&free, &total);
      if (status != cudaSuccess)
        fail(ErrorKind::Resource, "no memory on the device for {} bytes; {} of {} are free", bytes, free, total);
    }
    check(cudaMemsetAsync(memory, 0, length, context_.stream()), "clearing memory");
    wait();
    auto* data = static_cast<std::byte*>(memory);
    if (options_.host_memory) return {data, length, [](std::byte* at, size_t) { cudaFreeHost(at); }};
    return {data, length, [](std::byte* at, size_t) { cudaFree(at); }};
  }

  int64_t available_memory() const override {
    if (options_.host_memory) return Executor::available_memory();
    size_t free = 0, total = 0;
    check(cudaMemGetInfo(&free, &total), "asking for free memory");
    return static_cast<int64_t>(free);
  }

  int64_t step_rows() const override { return 4096; }

  void upload(Tensor to, std::span<const std::byte> from) override {
    CHECK(to.contiguous() && to.bytes() == std::ssize(from), "{} from {} bytes", to.describe(), from.size());
    submit_waiting();
    staging_.put(to.data, from);
  }

  void download(std::span<std::byte> to, Tensor from) override {
    CHECK(from.contiguous() && from.bytes() == std::ssize(to), "{} to {} bytes", from.describe(), to.size());
    submit_waiting();
    staging_.get(to, from.data, [&] { wait(); });
  }

  bool pack_copies() const override { return true; }

  // The segments keep pointing at the host's bytes; kernels read the packing alone.
  Weight pack(Weight plain) override {
    auto packed = std::make_unique<Packed>();
    Codes& codes = packed->codes;
    codes.coding = coding_of(plain.format);
    codes.count = plain.count, codes.rows = plain.rows, codes.columns = plain.columns;
    if (!std::holds_alternative<Dense>(plain.format)) {
      codes.block_rows = static_cast<int32_t>(packed_block_rows(plain));
      codes.block_columns = static_cast<int32_t>(packed_block_columns(plain));
      codes.scale_rows = static_cast<int32_t>((plain.rows + codes.block_rows - 1) / codes.block_rows);
      codes.scale_columns = static_cast<int32_t>(packed_scale_columns(plain));
      codes.row_scales = !std::holds_alternative<Fp8Block>(plain.format);
    }
    const std::vector<float> scales = packed_scales(plain, codes.block_rows);
    const int64_t row = row_bytes(plain.format, plain.columns);
    const auto code_bytes = static_cast<size_t>((plain.count * plain.rows * row + 255) / 256 * 256);
    const size_t scale_bytes = (scales.size() * sizeof(float) + 255) / 256 * 256;
    const int64_t group_row = group_bytes(plain.format, plain.columns);
    packed->memory =
        allocate_plain(code_bytes + scale_bytes + static_cast<size_t>(plain.count * plain.rows * group_row));
    std::byte* at = packed->memory.data();
    codes.data = reinterpret_cast<const uint8_t*>(at);
    std::vector<std::span<const std::byte>> data, groups;
    int64_t rows = 0;
    for (const WeightSegment& segment : plain.segments) {
      rows += segment.rows;
      data.emplace_back(segment.data, static_cast<size_t>(segment.rows * row));
      groups.emplace_back(segment.groups, static_cast<size_t>(segment.rows * group_row));
    }
    CHECK(rows == plain.count * plain.rows);
    staging_.put(at, data);
    codes.scales = reinterpret_cast<const float*>(packed->memory.data() + code_bytes);
    staging_.put(packed->memory.data() + code_bytes, std::as_bytes(std::span(scales)));
    std::byte* group = packed->memory.data() + code_bytes + scale_bytes;
    codes.groups = reinterpret_cast<const uint8_t*>(group);
    staging_.put(group, groups);
    plain.packing = std::move(packed);
    return plain;
  }

  Limits measure_limits(size_t footprint) override {
    submit_waiting();
    context_.begin();
    return cuda::measure_limits(context_, footprint);
  }

 private:
  void run(std::string_view name, const std::function<void()>& launch_all) {
    context_.begin();
    last_ = name;
    with_context(std::string(name), [&] {
      launch_all();
      check_launch();
      if (options_.check_each_op) check(cudaStreamSynchronize(context_.stream()), "running it");
    });
  }
  void run(const Op& op) {
    run(name_of(op), [&] { std::visit([&](const auto& word) { launch(context_, word); }, op); });
  }
  // Whether the op is launched with the norm that waits, or waits with it.
  bool joins(const Op& op) {
    const auto* products = std::get_if<Linear>(&op);
    if (!exact_ && products != nullptr && products->exact && reads(products->x, *norm_)) {
      exact_ = *products;
      return true;
    }
    bool joined = false;
    run(name_of(op), [&] { joined = launch_normed(context_, *norm_, exact_ ? &*exact_ : nullptr, op); });
    if (joined) norm_.reset(), exact_.reset();
    return joined;
  }
  // Whether the op that waits is launched with the add.
  bool adds(const AddNorm& norm) {
    bool added = false;
    run(name_of(*branch_), [&] { added = launch_added(context_, *branch_, norm); });
    if (added) branch_.reset();
    return added;
  }
  void submit_waiting() {
    if (const std::optional<Op> branch = std::exchange(branch_, std::nullopt)) run(*branch);
    const std::optional<AddNorm> norm = std::exchange(norm_, std::nullopt);
    const std::optional<Linear> exact = std::exchange(exact_, std::nullopt);
    if (!norm) return;
    bool joined = false;
    if (exact) run(Linear::name, [&] { joined = launch_joined(context_, *norm, *exact); });
    if (joined) return;
    run(AddNorm::name, [&] { launch(context_, *norm); });
    if (exact) run(Linear::name, [&] { launch(context_, *exact); });
  }

  // Device memory whatever the options say, not cleared.
  static Memory allocate_plain(size_t bytes) {
    void* memory = nullptr;
    check(cudaMalloc(&memory, std::max<size_t>(bytes, 1)), fmt::format("{} bytes for a weight", bytes));
    return {static_cast<std::byte*>(memory), bytes, [](std::byte* at, size_t) { cudaFree(at); }};
  }

  const CudaOptions options_;
  Context context_;
  Staging staging_;
  std::string_view last_ = "none";
  // Submitted, and not launched: what follows may join them.
  std::optional<Op> branch_;  // whose output the next norm may add
  std::optional<AddNorm> norm_;
  std::optional<Linear> exact_;  // of the norm's output
};

}  // namespace
}  // namespace braid::cuda

namespace braid {

std::unique_ptr<Executor> make_cuda_executor(const CudaOptions& options) {
  const cuda::DeviceDescription device = cuda::describe_device(options.device);
  // Whole texts: where the log formats, nvcc warns of what it takes for code of the device.
  log::debug(
      fmt::format("cuda device={} name='{}' capability={}.{}", device.index, device.name, device.major, device.minor));
  return std::make_unique<cuda::CudaExecutor>(options);
}

}  // namespace braid
