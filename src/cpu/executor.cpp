// SPDX-License-Identifier: Apache-2.0
#include "cpu/executor.h"

#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <functional>

#include "base/error.h"
#include "base/log.h"
#include "cpu/instructions.h"
#include "cpu/packing.h"
#include "cpu/processors.h"
#include "cpu/team.h"
#include "cpu/work.h"

namespace braid::cpu {
namespace {

// Ops that move less than this run on member 0 alone: a barrier costs as much as half of the work would.
constexpr int64_t kSmall = 16 << 10;
constexpr size_t kHugePage = 2 << 20;

auto kernel_of(const Kernels& kernels, const Copy*) { return kernels.copy; }
auto kernel_of(const Kernels& kernels, const Gather*) { return kernels.gather; }
auto kernel_of(const Kernels& kernels, const Fill*) { return kernels.fill; }
auto kernel_of(const Kernels& kernels, const Embed*) { return kernels.embed; }
auto kernel_of(const Kernels& kernels, const AddNorm*) { return kernels.add_norm; }
auto kernel_of(const Kernels& kernels, const Linear*) { return kernels.linear; }
auto kernel_of(const Kernels& kernels, const GatedLinear*) { return kernels.gated_linear; }
auto kernel_of(const Kernels& kernels, const PrepareHeads*) { return kernels.prepare_heads; }
auto kernel_of(const Kernels& kernels, const PagedAttention*) { return kernels.paged_attention; }
auto kernel_of(const Kernels& kernels, const GateBy*) { return kernels.gate_by; }
auto kernel_of(const Kernels& kernels, const DeltaRule*) { return kernels.delta_rule; }
auto kernel_of(const Kernels& kernels, const Route*) { return kernels.route; }
auto kernel_of(const Kernels& kernels, const Experts*) { return kernels.experts; }
auto kernel_of(const Kernels& kernels, const Penalise*) { return kernels.penalise; }
auto kernel_of(const Kernels& kernels, const MaskTokens*) { return kernels.mask_tokens; }
auto kernel_of(const Kernels& kernels, const Sample*) { return kernels.sample; }
auto kernel_of(const Kernels& kernels, const TopLogprobs*) { return kernels.top_logprobs; }

template <typename Word>
struct Call {
  const Kernels& kernels;
  const Word& op;
};

class CpuExecutor final : public Executor {
 public:
  CpuExecutor(const Kernels& kernels, int threads, const CpuOptions& options)
      : kernels_(kernels),
        fast_(options.fast),
        cache_(options.cache.value_or(options.fast ? DType::BF16 : DType::F32)),
        team_(threads) {
    CHECK(cache_ == DType::F32 || cache_ == DType::BF16, "cache={}", name_of(cache_));
  }

  std::string_view name() const override { return "cpu"; }
  DType activation_type() const override { return DType::F32; }
  DType cache_type() const override { return cache_; }

  // Ops run at once: what could be gained by a list, waking the team once for all of it, the team's helpers give as
  // well, since they stay awake from one op to the next.
  void submit(const Op& op) override {
    std::visit([this](const auto& word) { run(word); }, op);
  }
  void wait() override {}

  Memory allocate(size_t bytes) override {
    const size_t length = std::max<size_t>(bytes, 1);
    void* memory = mmap(nullptr, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) fail(ErrorKind::Resource, "no memory for {} bytes", bytes);
    if (length >= kHugePage) madvise(memory, length, MADV_HUGEPAGE);
    return {static_cast<std::byte*>(memory), length, [](std::byte* data, size_t size) { munmap(data, size); }};
  }

  void upload(Tensor to, std::span<const std::byte> from) override {
    CHECK(to.contiguous() && static_cast<size_t>(to.bytes()) == from.size(), "{} from {} bytes", to.describe(),
          from.size());
    if (!from.empty()) std::memcpy(to.data, from.data(), from.size());
  }

  void download(std::span<std::byte> to, Tensor from) override {
    CHECK(from.contiguous() && static_cast<size_t>(from.bytes()) == to.size(), "{} to {} bytes", from.describe(),
          to.size());
    if (!to.empty()) std::memcpy(to.data(), from.data, to.size());
  }

  Weight pack(Weight plain) override {
    plain.packing = std::make_unique<Packed>(plain);
    return plain;
  }

  Limits measure_limits(size_t footprint) override {
    const auto elements = static_cast<int64_t>(std::max(footprint / 8, kHugePage / 8));
    const Memory memory = allocate(static_cast<size_t>(8 * elements));
    submit(Fill{.out = Tensor(memory.data(), DType::U8, {8 * elements})});  // before it is touched it is no memory yet
    auto* floats = reinterpret_cast<float*>(memory.data());
    const Copy copy{.out = Tensor(floats, DType::F32, {elements / 1024, 1024}),
                    .x = Tensor(floats + elements, DType::F32, {elements / 1024, 1024})};
    Limits limits;
    limits.copy_bytes_per_second = best_rate([&] {
      submit(copy);
      return 2.0 * static_cast<double>(copy.out.bytes());
    });
    limits.flops_per_second = best_rate([&] { return peak_flops(); });
    return limits;
  }

 private:
  // What `work` says it did, over the time it took; the best of several times and of about half a second.
  static double best_rate(const std::function<double()>& work) {
    using Clock = std::chrono::steady_clock;
    constexpr int kLeast = 5;
    double best = 0;
    const auto start = Clock::now();
    for (int count = 0; count < kLeast || Clock::now() - start < std::chrono::milliseconds(500); ++count) {
      const auto before = Clock::now();
      const double done = work();
      best = std::max(best, done / std::chrono::duration<double>(Clock::now() - before).count());
    }
    return best;
  }
  double peak_flops() {
    struct Context {
      const Kernels& kernels;
      std::atomic<double> done = 0;
    } context{kernels_};
    team_.run({[](const void* given, const Share& share) {
                 auto& shared = *static_cast<Context*>(const_cast<void*>(given));
                 while (share.take(8 * share.members) >= 0) shared.done += shared.kernels.peak(share);
               },
               &context, fast_});
    return context.done;
  }

  template <typename Word>
  void run(const Word& word) {
    Work work;
    const_cast<Word&>(word).fields(work);  // `fields` shows a visitor that reads as well as one that writes
    const Call<Word> call{kernels_, word};
    const Team::Task task{[](const void* context, const Share& share) {
                            const auto& made = *static_cast<const Call<Word>*>(context);
                            kernel_of(made.kernels, &made.op)(made.op, share);
                          },
                          &call, fast_};
    work.bytes() < kSmall ? team_.run_alone(task) : team_.run(task);
  }

  const Kernels& kernels_;
  const bool fast_;
  const DType cache_;
  Team team_;
};

}  // namespace
}  // namespace braid::cpu

namespace braid {

std::unique_ptr<Executor> make_cpu_executor(const CpuOptions& options) {
  const auto chosen = cpu::choose_instructions(options.instructions);
  const bool wide = chosen == CpuOptions::Instructions::Avx512;
  const int threads = options.threads > 0 ? options.threads : std::min(cpu::useful_threads(), cpu::Team::kMostMembers);
  if (threads > cpu::Team::kMostMembers)
    fail(ErrorKind::Usage, "{} threads: at most {} are supported", threads, cpu::Team::kMostMembers);
  log::debug("cpu instructions={} threads={} fast={}", wide ? "avx512" : "avx2", threads, options.fast);
  return std::make_unique<cpu::CpuExecutor>(wide ? cpu::avx512::kKernels : cpu::avx2::kKernels, threads, options);
}

}  // namespace braid
