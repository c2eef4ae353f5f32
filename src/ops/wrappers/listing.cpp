// SPDX-License-Identifier: Apache-2.0
#include "ops/wrappers/listing.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <vector>

namespace braid {

namespace {

struct Arguments {
  std::vector<std::string> texts;
  void in(std::string_view name, const Tensor& tensor) {
    if (tensor) texts.push_back(fmt::format("{} {}", name, tensor.describe()));
  }
  void out(std::string_view name, const Tensor& tensor) { in(name, tensor); }
  void inout(std::string_view name, const Tensor& tensor) { in(name, tensor); }
  void weight(std::string_view name, const Weight* weight) {
    const std::string count = weight->count == 1 ? "" : fmt::format("{}, ", weight->count);
    texts.push_back(
        fmt::format("{} {}[{}{}, {}]", name, name_of(weight->format), count, weight->rows, weight->columns));
  }
  void gathered(std::string_view name, const Weight* table, int64_t) { weight(name, table); }
  void chosen(std::string_view name, const Weight* experts, const Tensor&) { weight(name, experts); }
  void rows(const Rows& rows) {
    texts.push_back(fmt::format("rows {} of {} at {}", rows.tokens, rows.sequences, rows.context));
  }
  void cache(const PagedCache& cache, bool) { in("keys", cache.keys), in("values", cache.values); }
  void slots(std::string_view name, const Tensor& tensor, const Rows&) { in(name, tensor); }
};

}  // namespace

std::string describe(const Op& op) {
  return std::visit(
      [](auto word) {
        Arguments arguments;
        word.fields(arguments);
        return fmt::format("{}({})", word.name, fmt::join(arguments.texts, ", "));
      },
      op);
}

Memory ListingExecutor::allocate(size_t bytes) {
  // Addresses from 1 TiB on: not null, and never followed.
  constexpr size_t kFalseAddress = size_t{1} << 40, kAlignment = 4096;
  auto* const address = reinterpret_cast<std::byte*>(kFalseAddress + allocated_);
  allocated_ += (bytes + kAlignment - 1) / kAlignment * kAlignment;
  return Memory(address, bytes, [](std::byte*, size_t) {});
}

void ListingExecutor::download(std::span<std::byte> to, Tensor) { std::ranges::fill(to, std::byte{0}); }

}  // namespace braid
