// Pinned memory through which bytes go between the host and the device.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime.h>

#include <array>
#include <cstddef>
#include <functional>
#include <span>

namespace braid::cuda {

// Copies are in the stream's order. `put` returns when the source may change; `get` when the bytes are there.
class Staging {
 public:
  explicit Staging(cudaStream_t stream);
  ~Staging();
  Staging(const Staging&) = delete;
  Staging& operator=(const Staging&) = delete;

  void put(std::byte* to, std::span<const std::byte> from) { put(to, {&from, 1}); }
  // Pieces that come to lie behind each other. Much at once is read by several threads, since one that faults pages of
  // a file in is slower than the bus.
  void put(std::byte* to, std::span<const std::span<const std::byte>> pieces);
  // `wait` is called to wait for the stream.
  void get(std::span<std::byte> to, const std::byte* from, const std::function<void()>& wait);

 private:
  static constexpr size_t kHalf = size_t{16} << 20;
  // The free end of the half in use; goes to the other half, once its copies are done, when this one is full.
  std::span<std::byte> room();

  cudaStream_t stream_;
  std::byte* memory_ = nullptr;
  std::array<cudaEvent_t, 2> done_{};
  size_t half_ = 0, used_ = 0;
};

}  // namespace braid::cuda
