// Ops captured as a CUDA graph, so that a step costs one launch.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime.h>

#include <functional>
#include <memory>

#include "cuda/common/context.h"
#include "ops/executor.h"

namespace braid::cuda {

class Graph final : public Recording {
 public:
  // Captures the launches of `submit_all` on the context's stream; nothing runs. Null when an op needs what a capture
  // forbids (the host, memory); the log names it.
  static std::unique_ptr<Graph> capture(Context& context, const std::function<void()>& submit_all);
  ~Graph() override;
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;

  // False when the context's work memory has moved since the capture.
  bool launch(Context& context) const;

 private:
  Graph(cudaGraphExec_t graph, uint64_t generation) : graph_(graph), generation_(generation) {}
  cudaGraphExec_t graph_;
  uint64_t generation_;
};

}  // namespace braid::cuda
