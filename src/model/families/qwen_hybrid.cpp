// The Qwen hybrids, dense and MoE: Gated DeltaNet layers (projections grouped or separate) with gated attention between
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>

#include "model/families/family.h"

namespace braid::families {
namespace {

struct Hybrid {
  bool grouped = false;                                           // projections, where there is no checkpoint to ask
  std::function<Part(int layer, const std::string& module)> ffn;  // of the trunk
  std::function<Part(const std::string& module)> drafter_ffn;
};

ModelSpec read(Source source, const Hybrid& hybrid) {
  Trunk trunk = read_trunk(source, NormKind::OnePlus);
  ModelSpec& model = trunk.model;
  source.config.expect("attn_output_gate", true);
  source.config.expect("output_gate_type", "swish");
  source.config.ignore({"mlp_only_layers"});
  AttentionShape heads = read_attention_shape(source);
  heads.head_norms = NormKind::OnePlus;
  heads.gated = true;
  const DeltaShape delta = read_delta_shape(source);
  const std::vector<std::string> types = hybrid_layer_types(source, model.layers);
  for (int layer = 0; layer < model.layers; ++layer) {
    const std::string at = fmt::format("{}layers.{}.", trunk.prefix, layer);
    const bool attends = types[static_cast<size_t>(layer)] == "full_attention";
    const Norm first = norm(source, at + "input_layernorm", model.width, trunk.norms);
    const Part mixer = attends ? Part{attention(source, at + "self_attn", heads)}
                               : Part{delta_net(source, at + "linear_attn", delta, hybrid.grouped)};
    model.branches.push_back({.norm = first, .part = mixer, .layer = layer});
    const Norm second = norm(source, at + "post_attention_layernorm", model.width, trunk.norms);
    model.branches.push_back({.norm = second, .part = hybrid.ffn(layer, at + "mlp"), .layer = layer});
  }
  read_mtp(source, model, heads, hybrid.drafter_ffn);
  for (const char* tower : {"model.visual.", "visual."}) source.plan.leave_out(tower, "the vision tower is not run");
  return finish_trunk(source, std::move(trunk));
}

MoeShape read_moe_shape(Source source, bool normalise) {
  ConfigReader& config = source.config;
  return {.width = config.size("hidden_size"),
          .experts = read_experts(config),
          .chosen = static_cast<int32_t>(config.size("num_experts_per_tok")),
          .inner = config.size("moe_intermediate_size"),
          .shared_inner = config.count("shared_expert_intermediate_size", 0),
          .normalise = normalise};
}

}  // namespace

ModelSpec read_qwen3_next(Source source) {
  ConfigReader& config = source.config;
  const MoeShape shape = read_moe_shape(source, config.flag("norm_topk_prob", true));
  const std::vector<int64_t> dense_layers = config.counts("mlp_only_layers", kMostLayers);
  const int64_t sparse_step = config.size_of({"decoder_sparse_step"}, 1),
                inner = config.size_of({"intermediate_size"}, 5632);
  const auto moe = [&](const std::string& module) -> Part { return moe_ffn(source, module, shape); };
  return read(source, {.grouped = true,
                       .ffn = [&](int layer, const std::string& module) -> Part {
                         const bool dense = std::ranges::find(dense_layers, layer) != dense_layers.end() ||
                                            (layer + 1) % sparse_step != 0;
                         return dense ? Part{dense_ffn(source, module, shape.width, inner)} : moe(module);
                       },
                       .drafter_ffn = moe});
}

ModelSpec read_qwen3_5(Source source) {
  const int64_t width = source.config.size("hidden_size"), inner = source.config.size("intermediate_size");
  const auto dense = [&](const std::string& module) -> Part { return dense_ffn(source, module, width, inner); };
  return read(source, {.ffn = [&](int, const std::string& module) { return dense(module); }, .drafter_ffn = dense});
}

ModelSpec read_qwen3_5_moe(Source source) {
  // Chosen weights are always normalised here, whatever the file says.
  source.config.ignore({"norm_topk_prob", "intermediate_size"});
  const MoeShape shape = read_moe_shape(source, true);
  const auto moe = [&](const std::string& module) -> Part { return moe_ffn(source, module, shape); };
  return read(source, {.ffn = [&](int, const std::string& module) { return moe(module); }, .drafter_ffn = moe});
}

}  // namespace braid::families
