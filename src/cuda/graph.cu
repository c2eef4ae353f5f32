// SPDX-License-Identifier: Apache-2.0
#include "cuda/graph.h"

#include "base/error.h"
#include "base/log.h"
#include "cuda/common/error.h"

namespace braid::cuda {

std::unique_ptr<Graph> Graph::capture(Context& context, const std::function<void()>& submit_all) {
  context.begin();  // joins work memory now: it must not move from here on
  check(cudaStreamBeginCapture(context.stream(), cudaStreamCaptureModeThreadLocal), "beginning a capture");
  context.hold(true);
  std::string why;
  try {
    submit_all();
  } catch (const Error& error) {
    why = error.message();
  }
  context.hold(false);
  cudaGraph_t graph = nullptr;
  const cudaError_t ended = cudaStreamEndCapture(context.stream(), &graph);
  if (why.empty() && ended != cudaSuccess) why = cudaGetErrorString(ended);
  cudaGraphExec_t executable = nullptr;
  if (why.empty()) {
    const cudaError_t made = cudaGraphInstantiate(&executable, graph, 0);
    if (made != cudaSuccess) why = cudaGetErrorString(made);
  }
  if (graph != nullptr) cudaGraphDestroy(graph);
  static_cast<void>(cudaGetLastError());
  if (!why.empty()) {
    context.say_once("steps run op by op, without a graph: " + why);
    return nullptr;
  }
  return std::unique_ptr<Graph>(new Graph(executable, context.generation()));
}

Graph::~Graph() { cudaGraphExecDestroy(graph_); }

bool Graph::launch(Context& context) const {
  if (context.generation() != generation_) return false;
  check(cudaGraphLaunch(graph_, context.stream()), "launching a graph");
  return true;
}

}  // namespace braid::cuda
