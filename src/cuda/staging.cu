// SPDX-License-Identifier: Apache-2.0
#include "cuda/staging.h"

#include <algorithm>
#include <cstring>

#include "cuda/common/error.h"
#include "cuda/pieces.h"

namespace braid::cuda {
Staging::Staging(cudaStream_t stream) : stream_(stream) {
  void* memory = nullptr;
  check(cudaHostAlloc(&memory, 2 * kHalf, cudaHostAllocDefault), "pinned memory");
  memory_ = static_cast<std::byte*>(memory);
  for (cudaEvent_t& event : done_) check(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), "making an event");
}

Staging::~Staging() {
  cudaStreamSynchronize(stream_);
  for (cudaEvent_t event : done_) cudaEventDestroy(event);
  cudaFreeHost(memory_);
}

std::span<std::byte> Staging::room() {
  if (used_ == kHalf) {
    check(cudaEventRecord(done_[half_], stream_), "recording an event");
    half_ = 1 - half_, used_ = 0;
    check(cudaEventSynchronize(done_[half_]), "waiting for a copy");
  }
  return {memory_ + half_ * kHalf + used_, kHalf - used_};
}

void Staging::put(std::byte* to, std::span<const std::span<const std::byte>> pieces) {
  const Pieces all(pieces);
  for (size_t done = 0; done < all.bytes();) {
    const std::span<std::byte> free = room();
    const size_t count = std::min(free.size(), all.bytes() - done);
    all.read(free.first(count), done);
    check(cudaMemcpyAsync(to + done, free.data(), count, cudaMemcpyDefault, stream_), "copy to the device");
    used_ = std::min(kHalf, used_ + (count + 255) / 256 * 256);
    done += count;
  }
}

void Staging::get(std::span<std::byte> to, const std::byte* from, const std::function<void()>& wait) {
  while (!to.empty()) {
    const std::span<std::byte> free = room();
    const size_t count = std::min(free.size(), to.size());
    check(cudaMemcpyAsync(free.data(), from, count, cudaMemcpyDefault, stream_), "copy from the device");
    wait();
    std::memcpy(to.data(), free.data(), count);
    from += count, to = to.subspan(count);
  }
}

}  // namespace braid::cuda
