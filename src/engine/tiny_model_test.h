// A small hybrid model with random weights for the tests of this folder.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "engine/step_runner.h"
#include "weights/plan.h"
#include "weights/table.h"

namespace braid {

// Two layers of each mixer, a dense network and one of experts behind them, and a drafter.
struct TinyModel {
  static constexpr int64_t kWidth = 24, kVocabulary = 50;

  explicit TinyModel(std::unique_ptr<Executor> runs) : executor(std::move(runs)) {
    WeightPlan plan(nullptr, Json{{"dtype", "float32"}});
    spec = {.family = "tiny", .width = kWidth, .vocabulary = kVocabulary, .layers = 4, .context = 1000};
    spec.embedding.table = plan.matrix("embed", kVocabulary, kWidth);
    spec.head = plan.matrix("head", kVocabulary, kWidth);
    for (int layer = 0; layer < 4; ++layer) {
      const std::string name = fmt::format("layers.{}.", layer);
      const Part mixer = layer % 2 == 0 ? Part{delta_net(plan, name)} : Part{attention(plan, name)};
      spec.branches.push_back({.norm = norm(plan, name + "mixer_norm"), .part = mixer, .layer = layer});
      const Part ffn = layer < 3 ? Part{dense(plan, name)} : Part{experts(plan, name)};
      spec.branches.push_back({.norm = norm(plan, name + "ffn_norm"), .part = ffn, .layer = layer});
    }
    spec.final_norm = norm(plan, "final_norm");
    spec.drafter = Drafter{.embedding_norm = norm(plan, "draft.embedding_norm"),
                           .hidden_norm = norm(plan, "draft.hidden_norm"),
                           .join = plan.matrix("draft.join", kWidth, 2 * kWidth)};
    spec.drafter->branches = {{.norm = norm(plan, "draft.norm"), .part = attention(plan, "draft.")}};
    spec.drafter->final_norm = norm(plan, "draft.final_norm");
    claim_state(spec, executor->cache_type());
    weights = random_weights(plan, *executor, 1);
  }

  LoadedModel loaded() const { return {.executor = *executor, .spec = spec, .weights = weights}; }

  std::unique_ptr<Executor> executor;
  ModelSpec spec;
  WeightTable weights;

 private:
  static Norm norm(WeightPlan& plan, const std::string& name) { return {.weight = plan.vector(name, {kWidth})}; }
  static Attention attention(WeightPlan& plan, const std::string& name) {
    return {.query = plan.matrix(name + "q", 4 * 2 * 8, kWidth),
            .key = plan.matrix(name + "k", 2 * 8, kWidth),
            .value = plan.matrix(name + "v", 2 * 8, kWidth),
            .output = plan.matrix(name + "o", kWidth, 4 * 8),
            .q_norm = plan.vector(name + "q_norm", {8}),
            .k_norm = plan.vector(name + "k_norm", {8}),
            .heads = 4,
            .kv_heads = 2,
            .size = 8,
            .frequencies = plan.constant(name + "frequencies", {1.0f, 0.1f, 0.01f}),
            .scale = 0.35f,
            .gated = true};
  }
  static DeltaNet delta_net(WeightPlan& plan, const std::string& name) {
    DeltaNet net{.key_heads = 2, .value_heads = 4, .taps = 4, .key_size = 6, .value_size = 5};
    net.qkv = plan.matrix(name + "qkv", net.channels(), kWidth);
    net.z = plan.matrix(name + "z", 20, kWidth);
    net.b = plan.matrix(name + "b", 4, kWidth);
    net.a = plan.matrix(name + "a", 4, kWidth);
    net.output = plan.matrix(name + "out", kWidth, 20);
    net.conv = plan.vector(name + "conv1d.weight", {net.channels(), net.taps});
    net.a_log = plan.vector(name + "A_log", {4});
    net.dt_bias = plan.vector(name + "dt_bias", {4});
    net.norm = plan.vector(name + "norm.weight", {5});
    return net;
  }
  static DenseFfn dense(WeightPlan& plan, const std::string& name) {
    return {.gate_up = plan.matrix(name + "gate_up", 2 * 16, kWidth),
            .down = plan.matrix(name + "down", kWidth, 16),
            .inner = 16};
  }
  static MoeFfn experts(WeightPlan& plan, const std::string& name) {
    const auto stack = [&](const char* what, int64_t rows, int64_t columns) {
      PlannedMatrix planned{.name = name + what, .count = 3, .rows = rows, .columns = columns};
      for (int64_t i = 0; i < 3; ++i) planned.pieces.push_back({planned.name, 3 * rows, i * rows, rows});
      return plan.matrix(std::move(planned));
    };
    MoeFfn ffn{.router = plan.matrix(name + "router", 3, kWidth), .experts = 3, .chosen = 2, .inner = 8};
    ffn.gate_up = stack("experts.gate_up", 2 * 8, kWidth);
    ffn.down = stack("experts.down", kWidth, 8);
    return ffn;
  }
};

inline std::vector<int32_t> random_tokens(int64_t count, uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<int32_t> tokens(static_cast<size_t>(count));
  for (int32_t& token : tokens) token = static_cast<int32_t>(random() % TinyModel::kVocabulary);
  return tokens;
}

}  // namespace braid
