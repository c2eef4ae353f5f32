// What family files share: the signature of a family, and readers of parts whose tensor names are common to several.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "model/config.h"
#include "model/registry.h"
#include "model/spec.h"
#include "weights/plan.h"

namespace braid::families {

// A family reads its config, claims its weights from the plan and returns the spec, without state handles.
struct Source {
  ConfigReader& config;
  WeightPlan& plan;
  const ModelOptions& options;
};
using Reader = ModelSpec (*)(Source source);

ModelSpec read_qwen3(Source source);
ModelSpec read_qwen3_moe(Source source);
ModelSpec read_qwen3_next(Source source);
ModelSpec read_qwen3_5(Source source);
ModelSpec read_qwen3_5_moe(Source source);

// What a config may ask for before a byte of weights is read is bounded: far beyond any model, and planned in moments.
inline constexpr int64_t kMostLayers = 1024, kMostExperts = 4096, kMostHeads = 4096;
inline constexpr int64_t kMostHeadSize = 65536, kMostTaps = 64;

// num_experts, or num_local_experts.
int32_t read_experts(ConfigReader& config);

// Norm weights: as stored, or with the 1 of "1 + w" added.
enum class NormKind { Plain, OnePlus };
Norm norm(Source source, const std::string& module, int64_t width, NormKind kind);

struct AttentionShape {
  int64_t width = 0;
  int32_t heads = 0, kv_heads = 0;
  int64_t size = 0;
  NormKind head_norms = NormKind::Plain;
  bool gated = false;
  VectorId frequencies;
  float rope_scale = 1.0f;
};
// num_attention_heads, num_key_value_heads, head_dim, rotary positions.
AttentionShape read_attention_shape(Source source);
// q_proj, k_proj, v_proj, o_proj, q_norm, k_norm under `module`.
Attention attention(Source source, const std::string& module, const AttentionShape& shape);

// gate_proj, up_proj, down_proj under `module`.
DenseFfn dense_ffn(Source source, const std::string& module, int64_t width, int64_t inner);

struct MoeShape {
  int64_t width = 0;
  int32_t experts = 0, chosen = 0;
  int64_t inner = 0, shared_inner = 0;  // shared_inner 0: no shared expert
  bool normalise = true;
};
// gate, experts (fused gate_up_proj and down_proj, or one by one), shared_expert and shared_expert_gate under `module`.
MoeFfn moe_ffn(Source source, const std::string& module, const MoeShape& shape);

struct DeltaShape {
  int64_t width = 0;
  int32_t key_heads = 0, value_heads = 0, taps = 4;
  int64_t key_size = 0, value_size = 0;
};
DeltaShape read_delta_shape(Source source);
// Separate projections (in_proj_qkv, in_proj_z, in_proj_b, in_proj_a) or grouped by key head (in_proj_qkvz,
// in_proj_ba): what the checkpoint stores decides, `grouped` where there is none.
DeltaNet delta_net(Source source, const std::string& module, const DeltaShape& shape, bool grouped);

// "linear_attention" or "full_attention" (or "sliding_attention") for each layer: layer_types, else by
// full_attention_interval.
std::vector<std::string> hybrid_layer_types(Source source, int layers);

// vocab_size, hidden_size, num_hidden_layers, embeddings, head (or tied), and where the text tensors lie ("model.").
struct Trunk {
  ModelSpec model;
  std::string prefix;
  NormKind norms = NormKind::Plain;
};
Trunk read_trunk(Source source, NormKind norms);
// Adds what every branch list ends with and forgets keys that change nothing.
ModelSpec finish_trunk(Source source, Trunk trunk);

// The multi-token prediction layer under "mtp." where the checkpoint stores it: one attention layer with `ffn` as the
// trunk's.
void read_mtp(Source source, ModelSpec& model, const AttentionShape& shape,
              const std::function<Part(const std::string&)>& ffn);

}  // namespace braid::families
