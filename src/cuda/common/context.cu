// SPDX-License-Identifier: Apache-2.0
#include "cuda/common/context.h"

#include <algorithm>

#include "base/log.h"
#include "cuda/common/error.h"
#include "cuda/linear/matrix_library.h"

namespace braid::cuda {

namespace {
constexpr size_t kAlignment = 256;
constexpr size_t kSmallestBlock = size_t{32} << 20;
}  // namespace

Context::Context(int device, bool fast) : fast_(fast) {
  check(cudaSetDevice(device), "choosing the device");
  check(cudaDeviceGetAttribute(&multiprocessors_, cudaDevAttrMultiProcessorCount, device), "asking for its size");
  int generation = 0;
  check(cudaDeviceGetAttribute(&generation, cudaDevAttrComputeCapabilityMajor, device), "asking for its generation");
  overlaps_ = generation >= 9, hopper_ = generation == 9;
  check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "making a stream");
  check(cudaMalloc(&flags_, kFlags * sizeof(int32_t)), "memory for flags");
  check(cudaMemsetAsync(flags_, 0, kFlags * sizeof(int32_t), stream_), "memory for flags");
}

Context::~Context() {
  matrices_.reset();
  free_blocks();
  cudaFree(flags_);
  cudaStreamDestroy(stream_);
}

void Context::add_block(size_t bytes) {
  if (held_) fail(ErrorKind::Internal, "work memory would have to grow by {} bytes", bytes);
  ++generation_;
  void* data = nullptr;
  check(cudaMalloc(&data, bytes), fmt::format("{} bytes of work memory", bytes));
  blocks_.push_back({static_cast<std::byte*>(data), bytes});
  used_ = 0;
}

void Context::free_blocks() {
  cudaStreamSynchronize(stream_);
  for (const Block& block : blocks_) cudaFree(block.data);
  blocks_.clear();
}

void Context::begin() {
  if (blocks_.size() > 1) {  // one block that holds what this op's like needs
    size_t bytes = 0;
    for (const Block& block : blocks_) bytes += block.bytes;
    free_blocks();
    add_block(bytes);
  }
  used_ = 0;
}

void* Context::take(size_t bytes) {
  bytes = (bytes + kAlignment - 1) / kAlignment * kAlignment;
  if (blocks_.empty() || used_ + bytes > blocks_.back().bytes) add_block(std::max(bytes, kSmallestBlock));
  void* out = blocks_.back().data + used_;
  used_ += bytes;
  return out;
}

MatrixLibrary* Context::matrices() {
  if (!looked_) matrices_ = MatrixLibrary::open(stream_);
  looked_ = true;
  return matrices_.get();
}

void Context::say_once(const std::string& text) {
  if (said_.insert(text).second) log::info(text);
}

void check_launch() { check(cudaGetLastError(), "launch"); }

}  // namespace braid::cuda
