// SPDX-License-Identifier: Apache-2.0
#include "ops/wrappers/expected.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/error.h"
#include "ops/wrappers/expected_words.h"

namespace braid {

namespace expecting {

namespace {

double element(const Tensor& tensor, int64_t offset) {
  switch (tensor.dtype) {
    case DType::F32:
      return tensor.as<const float>()[offset];
    case DType::BF16:
      return bf16_to_float(tensor.as<const uint16_t>()[offset]);
    case DType::I32:
      return tensor.as<const int32_t>()[offset];
    case DType::U8:
      return tensor.as<const uint8_t>()[offset];
    default:
      CHECK(false, "{}", tensor.describe());
  }
  return 0;
}

// Half a unit in the last place of a bf16 is up to 2^-8 of the number, and it is rounded from an f32.
double roundoff(DType type) { return type == DType::F32 ? 0x1p-24 : type == DType::BF16 ? 0x1p-8 + 0x1p-24 : 0; }

}  // namespace

Numbers load(const Tensor& tensor, int64_t offset, int64_t count) {
  Numbers out(static_cast<size_t>(count));
  for (int64_t i = 0; i < count; ++i) out[static_cast<size_t>(i)].value = element(tensor, offset + i);
  return out;
}

Numbers load(const Tensor& tensor) {
  Numbers out;
  for (int64_t i = 0; i < tensor.elements(); ++i) {
    int64_t rest = i, offset = 0;
    for (int dim = tensor.rank; dim-- > 0; rest /= tensor.size(dim))
      offset += rest % tensor.size(dim) * tensor.stride(dim);
    out.push_back({element(tensor, offset), 0});
  }
  return out;
}

Expected exact_piece(std::string_view argument, const Tensor& where, const Numbers& numbers) {
  CHECK(where.elements() == std::ssize(numbers), "{}: {} for {} numbers", argument, where.describe(), numbers.size());
  Expected out{.argument = std::string(argument), .where = where};
  for (const Bounded& number : numbers) out.values.push_back(number.value), out.errors.push_back(number.error);
  return out;
}

Expected piece(std::string_view argument, const Tensor& where, const Numbers& numbers) {
  Expected out = exact_piece(argument, where, numbers);
  if (const Arithmetic into{.unit = roundoff(where.dtype)}; into.unit > 0)
    for (size_t i = 0; i < numbers.size(); ++i)
      if (std::isfinite(out.values[i])) out.errors[i] = into.rounded(out.values[i], out.errors[i]).error;
  return out;
}

Expected converted_piece(std::string_view argument, const Tensor& where, Numbers numbers) {
  if (where.dtype == DType::BF16)
    for (Bounded& number : numbers) number.value = bf16_to_float(float_to_bf16(static_cast<float>(number.value)));
  return exact_piece(argument, where, numbers);
}

}  // namespace expecting

std::vector<Expected> expected_of(const Op& op, const Precision& precision) {
  return std::visit([&](const auto& word) { return expecting::expect(word, precision); }, op);
}

Comparison compare(const Expected& expected) {
  Comparison result;
  const expecting::Numbers found = expecting::load(expected.where);
  for (size_t i = 0; i < found.size(); ++i) {
    const double value = expected.values[i], bound = expected.errors[i], got = found[i].value;
    if (got == value || (std::isnan(got) && std::isnan(value))) continue;
    if (!expected.others.empty() && std::ranges::count(expected.others[i], got) > 0) continue;
    const double off = std::fabs(got - value);
    const double share = off <= bound ? off / bound : std::isfinite(off / bound) ? off / bound : INFINITY;
    if (share <= result.share) continue;
    result.share = share;
    if (share <= 1) continue;
    std::array<int64_t, Tensor::kMaxRank> at{};
    int64_t rest = static_cast<int64_t>(i);
    for (int dim = expected.where.rank; dim-- > 0; rest /= expected.where.size(dim))
      at[static_cast<size_t>(dim)] = rest % expected.where.size(dim);
    result.failure = fmt::format("{} {} at {}: found {:.9g}, expected {:.9g} within {:.3g}", expected.argument,
                                 expected.where.describe(),
                                 std::span(at.data(), static_cast<size_t>(expected.where.rank)), got, value, bound);
  }
  return result;
}

}  // namespace braid
