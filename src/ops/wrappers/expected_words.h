// The op families behind expected_of, and what they share.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>
#include <vector>

#include "ops/wrappers/bounded.h"
#include "ops/wrappers/expected.h"

namespace braid::expecting {

using Numbers = std::vector<Bounded>;
using Pieces = std::vector<Expected>;

// `count` consecutive elements of an f32 or bf16 tensor from element `offset` on, without error.
Numbers load(const Tensor& tensor, int64_t offset, int64_t count);
// All elements, row-major.
Numbers load(const Tensor& tensor);
// A piece whose values get one rounding into the tensor's type; integers and -infinity have no error.
Expected piece(std::string_view argument, const Tensor& where, const Numbers& numbers);
// A piece that repeats numbers of the tensor's type: nothing is rounded.
Expected exact_piece(std::string_view argument, const Tensor& where, const Numbers& numbers);

// A piece that takes `numbers` over, each converted to the piece's type exactly as nearest-even rounding does.
Expected converted_piece(std::string_view argument, const Tensor& where, Numbers numbers);

// A decoded matrix [rows, columns], row-major.
std::vector<float> decode(const Weight& weight, int64_t matrix);
// x * W^T for one row x.
Numbers product(const Numbers& x, const std::vector<float>& matrix, const Precision& precision);
// silu(first half) * second half.
Numbers gated(const Arithmetic& math, const Numbers& both);

Pieces expect(const Copy& op, const Precision& precision);
Pieces expect(const Gather& op, const Precision& precision);
Pieces expect(const Fill& op, const Precision& precision);
Pieces expect(const Embed& op, const Precision& precision);
Pieces expect(const AddNorm& op, const Precision& precision);
Pieces expect(const Linear& op, const Precision& precision);
Pieces expect(const GatedLinear& op, const Precision& precision);
Pieces expect(const PrepareHeads& op, const Precision& precision);
Pieces expect(const PagedAttention& op, const Precision& precision);
Pieces expect(const GateBy& op, const Precision& precision);
Pieces expect(const DeltaRule& op, const Precision& precision);
Pieces expect(const Route& op, const Precision& precision);
Pieces expect(const Experts& op, const Precision& precision);
Pieces expect(const Penalise& op, const Precision& precision);
Pieces expect(const MaskTokens& op, const Precision& precision);
Pieces expect(const Sample& op, const Precision& precision);
Pieces expect(const TopLogprobs& op, const Precision& precision);

}  // namespace braid::expecting
