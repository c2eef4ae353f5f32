// SPDX-License-Identifier: Apache-2.0
#include "cuda/pieces.h"

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

namespace braid::cuda {
namespace {

TEST(Pieces, AreReadAsOne) {
  const std::vector<size_t> lengths = {0, 1, 700, 0, size_t{5} << 20, 3, (size_t{2} << 20) + 17, 0};
  std::vector<std::byte> whole;
  std::vector<std::vector<std::byte>> parts;
  for (const size_t length : lengths) {
    std::vector<std::byte>& part = parts.emplace_back(length);
    for (std::byte& byte : part)
      byte = static_cast<std::byte>(whole.size() * 7 + whole.size() / 251), whole.push_back(byte);
  }
  const std::vector<std::span<const std::byte>> spans(parts.begin(), parts.end());
  const Pieces pieces(spans);
  ASSERT_EQ(pieces.bytes(), whole.size());
  for (const size_t from : {size_t{0}, size_t{1}, size_t{700}, size_t{701}, whole.size() - 5})
    for (const size_t count : {size_t{1}, size_t{900}, size_t{4} << 20, whole.size()}) {
      std::vector<std::byte> found(std::min(count, whole.size() - from));
      pieces.read(found, from);
      EXPECT_EQ(std::memcmp(found.data(), whole.data() + from, found.size()), 0) << from << " " << count;
    }
}

}  // namespace
}  // namespace braid::cuda
