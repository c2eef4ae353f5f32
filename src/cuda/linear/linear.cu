// The ops Linear and GatedLinear: choosing a kernel, and x in the type that it wants.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <map>
#include <vector>

#include "cuda/experts/one.h"
#include "cuda/launch.h"
#include "cuda/linear/product.h"
#include "cuda/linear/ring.h"
#include "cuda/linear/select.h"
#include "cuda/packing.h"
#include "cuda/residual/norm_products.h"
#include "cuda/residual/normed_row.h"

namespace braid::cuda {
namespace {

__global__ void round_kernel(__nv_bfloat16* out, View x) {
  const int64_t row = blockIdx.x;
  for (int64_t i = threadIdx.x; i < x.shape[1]; i += blockDim.x)
    out[row * x.shape[1] + i] = __float2bfloat16_rn(get(x, row * x.stride[0] + i));
}

bool aligned(const View& v) {
  const int64_t size = v.bf16 ? 2 : 4;
  return reinterpret_cast<uintptr_t>(v.data) % 16 == 0 && v.stride[0] * size % 16 == 0;
}

}  // namespace

View rounded_rows(Context& context, const View& x) {
  View out{.data = context.take<__nv_bfloat16>(x.shape[0] * x.shape[1]), .bf16 = true};
  out.shape[0] = x.shape[0], out.shape[1] = x.shape[1];
  out.stride[0] = x.shape[1], out.stride[1] = 1;
  round_kernel<<<static_cast<unsigned>(x.shape[0]), 256, 0, context.stream()>>>(static_cast<__nv_bfloat16*>(out.data),
                                                                                x);
  return out;
}

namespace {

ProductKernel kernel_for(Context& context, const Product& p) {
  CHECK(p.x.shape[1] == p.codes.columns, "x has {} columns, the weight {}", p.x.shape[1], p.codes.columns);
  ProductExtents extents{.tokens = p.slots,
                         .rows = p.codes.rows,
                         .columns = p.codes.columns,
                         .bf16 = p.codes.coding == Coding::BF16,
                         .fp8 = p.codes.coding == Coding::Fp8,
                         .int8 = p.codes.coding == Coding::Int8,
                         .nvfp4 = p.codes.coding == Coding::Nvfp4,
                         .row_scales = p.codes.row_scales,
                         .block_rows = p.codes.block_rows,
                         .block_columns = p.codes.block_columns,
                         .x_bf16 = p.x.bf16,
                         .aligned = aligned(p.x),
                         .exact = p.exact || !context.fast(),
                         .gated = p.gated,
                         .simple = p.groups == nullptr && p.list == nullptr && p.divide == 1 && !p.gated};
  const bool whole = p.groups == nullptr && extents.aligned;
  if (whole && p.slots <= kPassTokens && has_ring(context, p.codes))
    extents.ring_rows = ring_rows(context, p.codes, p.gated);
  extents.matrix_library = p.groups == nullptr && (p.gated || aligned(p.out)) && p.slots > kThinFewTokens &&
                           p.codes.rows % 8 == 0 && context.matrices() != nullptr;
  return choose_product(extents);
}

void multiply_by(Context& context, ProductKernel kernel, Product p) {
  if (kernel == ProductKernel::Plain) return multiply_plain(context, p);
  if (kernel == ProductKernel::Exact) return multiply_exact(context, {&p, 1});
  if (kernel == ProductKernel::Ring) return multiply_ringed(context, {&p, 1});
  if (!aligned(p.x) || (kernel == ProductKernel::Wide && !p.x.bf16)) p.x = rounded_rows(context, p.x);
  if (kernel == ProductKernel::Coded) return multiply_coded(context, p);
  kernel == ProductKernel::Thin ? multiply_thin(context, p) : multiply_wide(context, p);
}

bool empty(const Product& p) { return p.slots == 0 || p.codes.rows == 0; }

}  // namespace

void multiply(Context& context, Product p) {
  if (!empty(p)) multiply_by(context, kernel_for(context, p), p);
}

namespace {

std::vector<Product> products_of(const Linear& op) {
  std::vector<Product> out;
  for (const Linear::Target& target : op.targets) {
    if (target.weight == nullptr) break;
    const Product p{.out = view(target.out),
                    .x = view(op.x),
                    .codes = codes_of(*target.weight),
                    .exact = op.exact,
                    .slots = op.x.rows()};
    if (!empty(p)) out.push_back(p);
  }
  return out;
}

Product product_of(const GatedLinear& op) {
  return {.out = view(op.out), .x = view(op.x), .codes = codes_of(*op.gate_up), .gated = true, .slots = op.x.rows()};
}

}  // namespace

// Targets that the ring kernel takes, of one coding, share a launch, and those that the exact one takes.
void launch(Context& context, const Linear& op) {
  std::map<std::pair<Coding, bool>, std::vector<Product>> ringed;
  std::vector<Product> exact;
  for (const Product& p : products_of(op)) {
    const ProductKernel kernel = kernel_for(context, p);
    if (kernel == ProductKernel::Ring)
      ringed[{p.codes.coding, p.codes.row_scales}].push_back(p);
    else if (kernel == ProductKernel::Exact)
      exact.push_back(p);
    else
      multiply_by(context, kernel, p);
  }
  if (!exact.empty()) multiply_exact(context, exact);
  for (const auto& [coding, products] : ringed) multiply_ringed(context, products);
}

void launch(Context& context, const GatedLinear& op) {
  CHECK(op.activation == Activation::Silu);
  multiply(context, product_of(op));
}

bool launch_normed(Context& context, const AddNorm& norm, const Linear* exact, const Op& op) {
  std::vector<Product> products;
  bool alone = true;
  if (const auto* linear = std::get_if<Linear>(&op); linear != nullptr && reads(linear->x, norm)) {
    products = products_of(*linear);
    for (const Linear::Target& target : linear->targets)
      alone = alone && (target.weight == nullptr || leaves_alone(target.out, norm));
  }
  if (const auto* gated = std::get_if<GatedLinear>(&op); gated != nullptr && reads(gated->x, norm)) {
    products = {product_of(*gated)};
    alone = leaves_alone(gated->out, norm);
  }
  const auto ringed = [&](const Product& p) {
    const Codes& first = products.front().codes;
    return p.codes.coding == first.coding && p.codes.row_scales == first.row_scales &&
           kernel_for(context, p) == ProductKernel::Ring;
  };
  NormedRow row;
  return !products.empty() && alone && std::ranges::all_of(products, ringed) &&
         find_normed_row(row, context, norm, exact) && multiply_ringed(context, products, row);
}

bool may_add(const Op& op) {
  const auto one_row = [](const Tensor& out) { return out.rows() == 1 && out.dtype == DType::F32; };
  if (const auto* experts = std::get_if<Experts>(&op)) return one_row(experts->out);
  const auto* linear = std::get_if<Linear>(&op);
  return linear != nullptr && !linear->exact && linear->targets[1].weight == nullptr && one_row(linear->targets[0].out);
}

bool launch_added(Context& context, const Op& op, const AddNorm& norm) {
  const auto* experts = std::get_if<Experts>(&op);
  const auto* linear = std::get_if<Linear>(&op);
  const Tensor& out = experts != nullptr ? experts->out : linear->targets[0].out;
  AddNorm rest = norm;
  rest.add = {};
  const bool lands = out.data == norm.add.data && out.width() == norm.add.width() && norm.add.dtype == DType::F32 &&
                     norm.stream.dtype == DType::F32 && norm.stream.rows() == 1;
  if (!lands || !leaves_alone(out, rest) || !leaves_alone(experts != nullptr ? experts->x : linear->x, rest))
    return false;
  auto* stream = norm.stream.as<float>();
  if (experts != nullptr) return compute_one(context, *experts, stream);
  std::vector<Product> products = products_of(*linear);
  if (products.empty() || kernel_for(context, products.front()) != ProductKernel::Ring) return false;
  products.front().stream = stream;
  multiply_ringed(context, products);
  return true;
}

}  // namespace braid::cuda
