// SPDX-License-Identifier: Apache-2.0
#include "cuda/pieces.h"

#include <algorithm>
#include <cstring>
#include <thread>

namespace braid::cuda {

Pieces::Pieces(std::span<const std::span<const std::byte>> pieces) : pieces_(pieces) {
  size_t end = 0;
  for (const std::span<const std::byte> piece : pieces) ends_.push_back(end += piece.size());
}

void Pieces::read(std::span<std::byte> to, size_t from) const {
  constexpr size_t kShare = size_t{1} << 20, kMostThreads = 16;
  const size_t most = std::clamp<size_t>(std::thread::hardware_concurrency(), 1, kMostThreads);
  const size_t threads = std::clamp<size_t>(to.size() / kShare, 1, most);
  std::vector<std::jthread> others;
  for (size_t t = 1; t < threads; ++t) others.emplace_back([=, this] { read_share(to, from, t, threads); });
  read_share(to, from, 0, threads);
}

void Pieces::read_share(std::span<std::byte> to, size_t from, size_t share, size_t shares) const {
  size_t at = to.size() * share / shares;
  const size_t end = to.size() * (share + 1) / shares;
  while (at < end) {
    const auto piece = static_cast<size_t>(std::ranges::upper_bound(ends_, from + at) - ends_.begin());
    const size_t begin = from + at - (ends_[piece] - pieces_[piece].size());
    const size_t count = std::min(end - at, pieces_[piece].size() - begin);
    std::memcpy(to.data() + at, pieces_[piece].data() + begin, count);
    at += count;
  }
}

}  // namespace braid::cuda
