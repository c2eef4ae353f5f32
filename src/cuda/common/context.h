// What launches share: the stream, work memory that grows when an op needs more, and the matrix library.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime.h>

#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "ops/executor.h"

namespace braid::cuda {

class MatrixLibrary;

class Context {
 public:
  Context(int device, bool fast);
  ~Context();
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

  cudaStream_t stream() const { return stream_; }
  // Products may round their operands to bf16.
  bool fast() const { return fast_; }
  int multiprocessors() const { return multiprocessors_; }
  // A launch may begin before the one before it has ended.
  bool overlaps() const { return overlaps_; }

  // It has Hopper's tensor cores.
  bool hopper() const { return hopper_; }
  // Numbers that are zero between launches: a kernel that sets one clears it again.
  int32_t* flags() const { return flags_; }
  static constexpr int kFlags = 1024;

  // Work memory of the op that is being launched, aligned to 256 bytes: what `take` gave is free again at `begin`.
  void begin();
  void* take(size_t bytes);
  template <typename T>
  T* take(int64_t count) {
    return static_cast<T*>(take(static_cast<size_t>(count) * sizeof(T)));
  }
  // While it is on, work memory does not grow: `take` fails instead, and names the op's need.
  void hold(bool on) { held_ = on; }
  // Changes whenever work memory has moved.
  uint64_t generation() const { return generation_; }
  // Null where the library is not on this machine, which is logged once.
  MatrixLibrary* matrices();
  // Logs `text` the first time it is said.
  void say_once(const std::string& text);

 private:
  cudaStream_t stream_ = nullptr;
  bool fast_;
  int multiprocessors_ = 0;
  bool overlaps_ = false, hopper_ = false;
  int32_t* flags_ = nullptr;
  struct Block {
    std::byte* data = nullptr;
    size_t bytes = 0;
  };
  void add_block(size_t bytes);
  void free_blocks();

  std::vector<Block> blocks_;  // the last one is taken from
  size_t used_ = 0;
  bool held_ = false;
  uint64_t generation_ = 0;
  bool looked_ = false;
  std::unique_ptr<MatrixLibrary> matrices_;
  std::set<std::string> said_;
};

// Fails with the runtime's text when the launch before this call was refused.
void check_launch();

}  // namespace braid::cuda
