// One row and exact products of it: a block an output. Bounded by latency: one launch instead of two that wait for each
// other.
// SPDX-License-Identifier: Apache-2.0
#include "cuda/common/start.h"
#include "cuda/packing.h"
#include "cuda/residual/norm_products.h"
#include "cuda/residual/normed_row.h"

namespace braid::cuda {
namespace {

constexpr int kThreads = 128, kMostSteps = 5;
constexpr int kStep = kThreads * kNormedEach;

template <int kSteps>
__global__ void __launch_bounds__(kThreads) norm_products_kernel(const __grid_constant__ NormedRow row) {
  __shared__ float2 parts[kThreads / 32];
  __shared__ bool last;
  NormedPart<kThreads, kSteps> part;
  allow_next();
  part.ask(row);
  await();
  const float factor = part.add_up(row, parts);
  if (threadIdx.x == 0) last = part.last;
  __syncthreads();
  if (last) part.write(row, factor);
}

bool whole(const Tensor& tensor) {
  return !tensor || (tensor.dtype == DType::F32 && reinterpret_cast<uintptr_t>(tensor.data) % 16 == 0);
}

bool fits(const Linear::Target& target, int64_t width) {
  const Codes& codes = codes_of(*target.weight);
  return codes.coding == Coding::BF16 && codes.count == 1 && codes.columns == width && codes.rows > 0 &&
         reinterpret_cast<uintptr_t>(codes.data) % 16 == 0;
}

}  // namespace

bool may_join(const AddNorm& norm) {
  return norm.out && norm.stream.rows() == 1 && norm.stream.width() % kNormedEach == 0 &&
         norm.stream.width() <= INT32_MAX && whole(norm.out) && whole(norm.stream) && whole(norm.add) &&
         whole(norm.weight) && norm.out.data != norm.add.data;
}

bool reads(const Tensor& x, const AddNorm& norm) {
  return x.data == norm.out.data && x.dtype == DType::F32 && x.rows() == 1 && x.width() == norm.out.width();
}

bool leaves_alone(const Tensor& out, const AddNorm& norm) {
  const auto end = [](const Tensor& row) { return row.data + row.width() * size_of(row.dtype); };
  const auto apart = [&](const Tensor& read) { return !read || end(out) <= read.data || end(read) <= out.data; };
  return out.rows() == 1 && apart(norm.stream) && apart(norm.add);
}

bool find_normed_row(NormedRow& row, Context& context, const AddNorm& norm, const Linear* products) {
  const int64_t width = norm.stream.width();
  row = {.out = norm.out.as<float>(),
         .stream = norm.stream.as<float>(),
         .add = norm.add ? norm.add.as<float>() : nullptr,
         .weight = norm.weight ? norm.weight.as<float>() : nullptr,
         .arrived = reinterpret_cast<unsigned*>(context.flags() + Context::kFlags - 1),
         .width = static_cast<int>(width),
         .epsilon = norm.epsilon};
  if (products == nullptr) return true;
  if (!products->exact || !reads(products->x, norm)) return false;
  for (const Linear::Target& target : products->targets) {
    if (target.weight == nullptr) break;
    if (!fits(target, width) || !leaves_alone(target.out, norm)) return false;
    const Codes& codes = codes_of(*target.weight);
    row.targets[row.target_count++] = {view(target.out), reinterpret_cast<const uint4*>(codes.data), row.outputs};
    row.outputs += static_cast<unsigned>(codes.rows);
  }
  return true;
}

bool launch_joined(Context& context, const AddNorm& norm, const Linear& products) {
  NormedRow row;
  if (!find_normed_row(row, context, norm, &products) || row.outputs == 0 || row.width > kMostSteps * kStep)
    return false;
  constexpr void (*kKernels[kMostSteps])(NormedRow) = {norm_products_kernel<1>, norm_products_kernel<2>,
                                                       norm_products_kernel<3>, norm_products_kernel<4>,
                                                       norm_products_kernel<5>};
  start(context, kKernels[(row.width - 1) / kStep], {.grid = row.outputs, .block = kThreads}, row);
  return true;
}

}  // namespace braid::cuda
