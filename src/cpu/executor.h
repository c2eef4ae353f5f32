// The CPU executor: vectorised kernels for AVX2 and AVX-512, chosen at run time, walked by a team of threads.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "ops/executor.h"

namespace braid {

struct CpuOptions {
  enum class Instructions : uint8_t { Auto, Avx2, Avx512 };
  int threads = 0;  // 0: one per core this process may use
  bool fast =
      true;  // products may round operands to bf16 or int8 and keys and values are bf16; false: f32 operands and cache
  Instructions instructions = Instructions::Auto;
  std::optional<DType> cache;  // type of keys and values, F32 or BF16; absent: BF16 when fast, else F32
};

// A Usage error when the machine lacks the instructions asked for, or AVX2 at all.
std::unique_ptr<Executor> make_cpu_executor(const CpuOptions& options);

}  // namespace braid
