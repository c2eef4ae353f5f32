// What changes logits before a draw: penalties and masks. A work item is a row.
// SPDX-License-Identifier: Apache-2.0
#include "cpu/dispatch/functions.h"
#include "cpu/memory/elements.h"

namespace braid::cpu::BRAID_ISA {

void penalise(const Penalise& op, const Share& share) {
  const int64_t rows = op.logits.size(0);
  const int32_t* starts = op.starts.as<int32_t>();
  for (int64_t r = share.take(rows); r >= 0; r = share.take(rows)) {
    const float* numbers = op.penalties.row<float>(r);
    const Penalties penalties{.repetition = numbers[0], .frequency = numbers[1], .presence = numbers[2]};
    float* logits = op.logits.row<float>(r);
    for (int64_t e = starts[r]; e < starts[r + 1]; ++e) {
      TokenEntry entry;
      __builtin_memcpy(&entry, op.entries.row<std::byte>(e), sizeof(entry));
      float z = logits[entry.token];
      if (entry.seen != 0) z = z > 0.0f ? z / penalties.repetition : z * penalties.repetition;
      z -= penalties.frequency * static_cast<float>(entry.count);
      if (entry.count > 0) z -= penalties.presence;
      logits[entry.token] = z + entry.bias;
    }
  }
}

void mask_tokens(const MaskTokens& op, const Share& share) {
  const int64_t rows = op.logits.size(0), width = op.logits.size(1);
  for (int64_t r = share.take(rows); r >= 0; r = share.take(rows)) {
    float* logits = op.logits.row<float>(r);
    const uint32_t* mask = op.mask.row<uint32_t>(op.mask.size(0) == 1 ? 0 : r);
    for (int64_t first = 0; first < width; first += 32) {
      const uint32_t word = mask[first / 32];
      const int64_t count = width - first < 32 ? width - first : 32;
      if (word == 0xFFFFFFFFu) continue;
      for (int64_t i = 0; i < count; ++i)
        logits[first + i] = (word >> i & 1u) != 0 ? logits[first + i] : -__builtin_inff();
    }
  }
}

}  // namespace braid::cpu::BRAID_ISA
