// What runs ops: the reference, the CPU, a GPU.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string_view>

#include "base/memory_info.h"
#include "ops/op.h"
#include "tensor/tensor.h"
#include "tensor/weight.h"

namespace braid {

// Bytes that an executor allocated; freed when this dies. The address may be a device's.
class Memory {
 public:
  Memory() : data_(nullptr, Deleter{nullptr, 0}) {}
  Memory(std::byte* data, size_t bytes, void (*free)(std::byte*, size_t))
      : data_(data, Deleter{free, bytes}), bytes_(bytes) {}
  std::byte* data() const { return data_.get(); }
  size_t bytes() const { return bytes_; }

 private:
  struct Deleter {
    void (*free)(std::byte*, size_t);
    size_t bytes;
    void operator()(std::byte* data) const { free(data, bytes); }
  };
  std::unique_ptr<std::byte, Deleter> data_;
  size_t bytes_ = 0;
};

// What a machine can do at best, measured: moving bytes over a working set of a given size, and multiplying in the type
// that wide products use (a multiply and an add count two). Zero: not known.
struct Limits {
  double copy_bytes_per_second = 0;
  double flops_per_second = 0;
};

// Ops that an executor keeps, to run them again as one.
class Recording {
 public:
  virtual ~Recording() = default;
};

// One thread uses an executor at a time. Ops run in the order they were submitted; `submit` may return before they ran,
// and the memory they name must stay until `wait`.
class Executor {
 public:
  virtual ~Executor() = default;
  virtual std::string_view name() const = 0;
  // The type of activations between ops, and of keys and values unless the user asks for another.
  virtual DType activation_type() const = 0;
  virtual DType cache_type() const = 0;
  // Whether the bits of a row depend on nothing but that row: not on how many stand beside it.
  virtual bool rows_independent() const { return true; }
  virtual void submit(const Op& op) = 0;
  // Returns when everything submitted has run. Device errors surface here, naming the op.
  virtual void wait() = 0;
  // Calls `submit_all`, which submits ops and does nothing else to this executor, and keeps what it submitted: the same
  // ops on the same memory, whose contents may change. They run once now. Null where this executor does not record, or
  // could not record these (the log says why); they ran all the same, though `submit_all` may have been called twice.
  virtual std::unique_ptr<Recording> record(const std::function<void()>& submit_all) {
    submit_all();
    return nullptr;
  }
  // Runs a recording of this executor again, as `submit` would. False, with nothing run, when it can no longer be used.
  virtual bool replay(Recording& recording) {
    (void)recording;
    return false;
  }
  // Zeroed memory, aligned to at least 256 bytes, whose pages are touched when first used where the system allows that.
  // A Resource error when there is not enough.
  virtual Memory allocate(size_t bytes) = 0;
  // Bytes that `allocate` could still give: of the device's memory, where it has its own.
  virtual int64_t available_memory() const { return memory_info().available; }
  // Rows of a step at which wide products come near to their peak; more of them only make the step longer.
  virtual int64_t step_rows() const { return 512; }
  // Copy between host memory and a contiguous tensor of this executor's memory, after everything submitted so far.
  virtual void upload(Tensor to, std::span<const std::byte> from) = 0;
  virtual void download(std::span<std::byte> to, Tensor from) = 0;
  // Brings a weight into the layout that this executor's kernels want, or keeps its segments as they are. The bytes
  // behind the segments must stay where they are while the weight lives. An Input error when the format has no kernel
  // here.
  virtual Weight pack(Weight plain) = 0;
  // Whether `pack` copies all it needs, so that the bytes behind the segments may go or change afterwards.
  virtual bool pack_copies() const { return false; }
  // Takes about a second. `footprint` bytes are read over and over, as the steps of a small model do with its weights.
  virtual Limits measure_limits(size_t footprint) {
    (void)footprint;
    return {};
  }
};

inline void run(Executor& executor, const Op& op) { executor.submit(op); }

}  // namespace braid
