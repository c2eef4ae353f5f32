// Pieces of host memory read as one.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace braid::cuda {

class Pieces {
 public:
  // The pieces must outlive this.
  explicit Pieces(std::span<const std::span<const std::byte>> pieces);
  size_t bytes() const { return ends_.empty() ? 0 : ends_.back(); }

  // Fills `to` with what lies at `from`, by several threads where it is much.
  void read(std::span<std::byte> to, size_t from) const;

 private:
  void read_share(std::span<std::byte> to, size_t from, size_t share, size_t shares) const;

  std::span<const std::span<const std::byte>> pieces_;
  std::vector<size_t> ends_;
};

}  // namespace braid::cuda
