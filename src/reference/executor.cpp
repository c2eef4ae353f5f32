// SPDX-License-Identifier: Apache-2.0
#include "reference/executor.h"

#include <sys/mman.h>

#include <cstring>
#include <utility>

#include "base/error.h"
#include "reference/ops.h"

namespace braid {

namespace {

class ReferenceExecutor : public Executor {
 public:
  std::string_view name() const override { return "reference"; }
  DType activation_type() const override { return DType::F32; }
  DType cache_type() const override { return DType::F32; }
  void submit(const Op& op) override {
    std::visit([](const auto& word) { reference::compute(word); }, op);
  }
  void wait() override {}
  Memory allocate(size_t bytes) override;
  void upload(Tensor to, std::span<const std::byte> from) override {
    CHECK(to.contiguous() && to.bytes() == std::ssize(from), "{} from {} bytes", to.describe(), from.size());
    if (!from.empty()) std::memcpy(to.data, from.data(), from.size());
  }
  void download(std::span<std::byte> to, Tensor from) override {
    CHECK(from.contiguous() && from.bytes() == std::ssize(to), "{} to {} bytes", from.describe(), to.size());
    if (!to.empty()) std::memcpy(to.data(), from.data, to.size());
  }
  Weight pack(Weight plain) override { return plain; }
};

Memory ReferenceExecutor::allocate(size_t bytes) {
  if (bytes == 0) return {};
  void* address = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (address == MAP_FAILED) fail(ErrorKind::Resource, "no memory for {} bytes", bytes);
  return Memory(static_cast<std::byte*>(address), bytes,
                [](std::byte* data, size_t length) { ::munmap(data, length); });
}

}  // namespace

std::unique_ptr<Executor> make_reference_executor() { return std::make_unique<ReferenceExecutor>(); }

}  // namespace braid
