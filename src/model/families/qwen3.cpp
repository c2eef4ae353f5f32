// Qwen3 and Qwen3-MoE: plain norms, head norms before rotary positions, softmax attention in every layer.
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>

#include "model/families/family.h"

namespace braid::families {
namespace {

// The window of each layer (0: none). Layers from max_window_layers on slide where use_sliding_window says so.
std::vector<int64_t> windows(Source source, int layers) {
  ConfigReader& config = source.config;
  const bool slides = config.flag("use_sliding_window", false);
  const int64_t window = config.count("sliding_window", 0, INT32_MAX), from = config.count("max_window_layers", 28);
  const std::vector<std::string> types = config.texts("layer_types");
  if (!types.empty() && std::ssize(types) != layers)
    config.refuse("layer_types", fmt::format("has {} entries for {} layers", types.size(), layers));
  std::vector<int64_t> out(static_cast<size_t>(layers), 0);
  for (size_t layer = 0; layer < out.size(); ++layer) {
    const std::string type = !types.empty()                                  ? types[layer]
                             : slides && static_cast<int64_t>(layer) >= from ? "sliding_attention"
                                                                             : "full_attention";
    if (type != "full_attention" && type != "sliding_attention")
      config.refuse("layer_types", fmt::format("holds '{}'; known are full_attention, sliding_attention", type));
    if (type == "sliding_attention") {
      if (window <= 0) config.refuse("sliding_window", "must be positive for layers that slide");
      out[layer] = window;
    }
  }
  return out;
}

using FfnOfLayer = std::function<Part(int layer, const std::string& module)>;

ModelSpec read(Source source, const FfnOfLayer& ffn) {
  Trunk trunk = read_trunk(source, NormKind::Plain);
  ModelSpec& model = trunk.model;
  const AttentionShape shape = read_attention_shape(source);
  const std::vector<int64_t> window = windows(source, model.layers);
  for (int layer = 0; layer < model.layers; ++layer) {
    const std::string at = fmt::format("{}layers.{}.", trunk.prefix, layer);
    Attention part = attention(source, at + "self_attn", shape);
    part.window = window[static_cast<size_t>(layer)];
    model.branches.push_back(
        {.norm = norm(source, at + "input_layernorm", model.width, trunk.norms), .part = part, .layer = layer});
    model.branches.push_back({.norm = norm(source, at + "post_attention_layernorm", model.width, trunk.norms),
                              .part = ffn(layer, at + "mlp"),
                              .layer = layer});
  }
  return finish_trunk(source, std::move(trunk));
}

}  // namespace

ModelSpec read_qwen3(Source source) {
  const int64_t width = source.config.size("hidden_size"), inner = source.config.size("intermediate_size");
  return read(source, [&](int, const std::string& module) { return dense_ffn(source, module, width, inner); });
}

ModelSpec read_qwen3_moe(Source source) {
  ConfigReader& config = source.config;
  const MoeShape shape{.width = config.size("hidden_size"),
                       .experts = read_experts(config),
                       .chosen = static_cast<int32_t>(config.size("num_experts_per_tok")),
                       .inner = config.size("moe_intermediate_size"),
                       .normalise = config.flag("norm_topk_prob", false)};
  const std::vector<int64_t> dense_layers = config.counts("mlp_only_layers", kMostLayers);
  const int64_t sparse_step = config.size_of({"decoder_sparse_step"}, 1),
                inner = config.size_of({"intermediate_size"}, 6144);
  return read(source, [&](int layer, const std::string& module) -> Part {
    const bool dense = std::ranges::find(dense_layers, layer) != dense_layers.end() || (layer + 1) % sparse_step != 0;
    if (dense) return dense_ffn(source, module, shape.width, inner);
    return moe_ffn(source, module, shape);
  });
}

}  // namespace braid::families
