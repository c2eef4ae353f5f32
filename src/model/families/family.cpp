// SPDX-License-Identifier: Apache-2.0
#include "model/families/family.h"

#include <fmt/format.h>

#include <cmath>

#include "base/error.h"
#include "base/log.h"
#include "model/families/rope.h"

namespace braid::families {

namespace {

float read_epsilon(ConfigReader& config) {
  const double epsilon = config.number("rms_norm_eps", 1e-6);
  if (!(epsilon >= 0 && epsilon <= 1))
    config.refuse("rms_norm_eps", fmt::format("must lie between 0 and 1, found {}", epsilon));
  return static_cast<float>(epsilon);
}

}  // namespace

Norm norm(Source source, const std::string& module, int64_t width, NormKind kind) {
  const auto transform = kind == NormKind::OnePlus ? PlannedVector::Transform::AddOne : PlannedVector::Transform::None;
  return {.weight = source.plan.vector(module + ".weight", {width}, transform), .epsilon = read_epsilon(source.config)};
}

int32_t read_experts(ConfigReader& config) {
  const char* key = config.has("num_experts") ? "num_experts" : "num_local_experts";
  return static_cast<int32_t>(config.size(config.has(key) ? key : "num_experts", kMostExperts));
}

AttentionShape read_attention_shape(Source source) {
  ConfigReader& config = source.config;
  AttentionShape shape;
  shape.width = config.size("hidden_size");
  shape.heads = static_cast<int32_t>(config.size("num_attention_heads", kMostHeads));
  shape.kv_heads = static_cast<int32_t>(config.size_of({"num_key_value_heads"}, shape.heads));
  shape.size = config.size_of({"head_dim"}, shape.width / shape.heads);
  if (shape.size < 1 || shape.size > kMostHeadSize)
    config.refuse("head_dim", fmt::format("must lie between 1 and {}, found {}", kMostHeadSize, shape.size));
  if (shape.heads % shape.kv_heads != 0)
    config.refuse("num_key_value_heads", fmt::format("{} does not divide {} heads", shape.kv_heads, shape.heads));
  config.expect("attention_bias", false);
  const RopeTable rope = read_rope(config, shape.size, source.options.rope_scaling);
  shape.frequencies = source.plan.constant("rope frequencies", rope.frequencies);
  shape.rope_scale = rope.scale;
  return shape;
}

Attention attention(Source source, const std::string& module, const AttentionShape& shape) {
  const int64_t query_rows = shape.heads * shape.size, kv_rows = shape.kv_heads * shape.size;
  WeightPlan& plan = source.plan;
  Attention out{.query = plan.matrix(module + ".q_proj", shape.gated ? 2 * query_rows : query_rows, shape.width),
                .key = plan.matrix(module + ".k_proj", kv_rows, shape.width),
                .value = plan.matrix(module + ".v_proj", kv_rows, shape.width),
                .output = plan.matrix(module + ".o_proj", shape.width, query_rows)};
  const Norm query_norm = norm(source, module + ".q_norm", shape.size, shape.head_norms);
  out.q_norm = query_norm.weight;
  out.k_norm = norm(source, module + ".k_norm", shape.size, shape.head_norms).weight;
  out.epsilon = query_norm.epsilon;
  out.heads = shape.heads;
  out.kv_heads = shape.kv_heads;
  out.size = shape.size;
  out.frequencies = shape.frequencies;
  out.rope_scale = shape.rope_scale;
  out.scale = 1.0f / std::sqrt(static_cast<float>(shape.size));
  out.gated = shape.gated;
  return out;
}

DenseFfn dense_ffn(Source source, const std::string& module, int64_t width, int64_t inner) {
  return {.gate_up = source.plan.matrix(
              {.name = module + ".gate_up",
               .rows = 2 * inner,
               .columns = width,
               .pieces = {{module + ".gate_proj", inner, 0, inner}, {module + ".up_proj", inner, 0, inner}}}),
          .down = source.plan.matrix(module + ".down_proj", width, inner),
          .inner = inner};
}

MoeFfn moe_ffn(Source source, const std::string& module, const MoeShape& shape) {
  WeightPlan& plan = source.plan;
  MoeFfn out{.router = plan.matrix(module + ".gate", shape.experts, shape.width),
             .experts = shape.experts,
             .chosen = shape.chosen,
             .inner = shape.inner,
             .normalise = shape.normalise};
  if (shape.chosen > shape.experts)
    source.config.refuse("num_experts_per_tok", fmt::format("{} exceeds {} experts", shape.chosen, shape.experts));
  PlannedMatrix gate_up{
      .name = module + ".experts.gate_up", .count = shape.experts, .rows = 2 * shape.inner, .columns = shape.width};
  PlannedMatrix down{
      .name = module + ".experts.down", .count = shape.experts, .rows = shape.width, .columns = shape.inner};
  const bool fused = plan.has(module + ".experts.gate_up_proj", false);
  for (int64_t e = 0; e < shape.experts; ++e) {
    if (fused) {
      gate_up.pieces.push_back(
          {module + ".experts.gate_up_proj", gate_up.count * gate_up.rows, e * gate_up.rows, gate_up.rows});
      down.pieces.push_back({module + ".experts.down_proj", down.count * down.rows, e * down.rows, down.rows});
    } else {
      const std::string expert = fmt::format("{}.experts.{}", module, e);
      gate_up.pieces.push_back({expert + ".gate_proj", shape.inner, 0, shape.inner});
      gate_up.pieces.push_back({expert + ".up_proj", shape.inner, 0, shape.inner});
      down.pieces.push_back({expert + ".down_proj", shape.width, 0, shape.width});
    }
  }
  out.gate_up = plan.matrix(std::move(gate_up));
  out.down = plan.matrix(std::move(down));
  if (shape.shared_inner > 0) {
    const DenseFfn shared = dense_ffn(source, module + ".shared_expert", shape.width, shape.shared_inner);
    out.shared = SharedExpert{.gate_up = shared.gate_up,
                              .down = shared.down,
                              .gate = plan.matrix(module + ".shared_expert_gate", 1, shape.width),
                              .inner = shape.shared_inner};
  }
  return out;
}

DeltaShape read_delta_shape(Source source) {
  ConfigReader& config = source.config;
  DeltaShape shape{.width = config.size("hidden_size"),
                   .key_heads = static_cast<int32_t>(config.size("linear_num_key_heads", kMostHeads)),
                   .value_heads = static_cast<int32_t>(config.size("linear_num_value_heads", kMostHeads)),
                   .taps = static_cast<int32_t>(config.size_of({"linear_conv_kernel_dim"}, 4)),
                   .key_size = config.size("linear_key_head_dim", kMostHeadSize),
                   .value_size = config.size("linear_value_head_dim", kMostHeadSize)};
  if (shape.value_heads % shape.key_heads != 0)
    config.refuse("linear_num_value_heads",
                  fmt::format("{} is not a multiple of {} key heads", shape.value_heads, shape.key_heads));
  if (shape.taps < 2 || shape.taps > kMostTaps)
    config.refuse("linear_conv_kernel_dim", fmt::format("must lie between 2 and {}, found {}", kMostTaps, shape.taps));
  config.expect("mamba_ssm_dtype", "float32");
  return shape;
}

namespace {

// Rows [first, first + rows) of every key head's group, in order of groups.
std::vector<Piece> of_each_group(const std::string& module, int64_t groups, int64_t group_rows,
                                 std::pair<int64_t, int64_t> range) {
  std::vector<Piece> pieces;
  for (int64_t g = 0; g < groups; ++g)
    pieces.push_back({module, groups * group_rows, g * group_rows + range.first, range.second});
  return pieces;
}

// Grouped projections: per key head [q | k | v of its value heads | z of them] and [b | a] (semantics GDN-2).
void grouped_projections(Source source, const std::string& module, const DeltaShape& shape, DeltaNet& net) {
  const int64_t ratio = shape.value_heads / shape.key_heads, values = ratio * shape.value_size;
  const int64_t group = 2 * shape.key_size + 2 * values;
  const std::string qkvz = module + ".in_proj_qkvz", ba = module + ".in_proj_ba";
  PlannedMatrix qkv{.name = module + ".qkv", .rows = net.channels(), .columns = shape.width};
  const std::pair<int64_t, int64_t> ranges[] = {
      {0, shape.key_size}, {shape.key_size, shape.key_size}, {2 * shape.key_size, values}};
  for (const auto& range : ranges)
    for (Piece& piece : of_each_group(qkvz, shape.key_heads, group, range)) qkv.pieces.push_back(std::move(piece));
  net.qkv = source.plan.matrix(std::move(qkv));
  const auto rest = [&](const char* name, int64_t rows, std::vector<Piece> pieces) {
    return source.plan.matrix(
        {.name = module + name, .rows = rows, .columns = shape.width, .pieces = std::move(pieces)});
  };
  net.z = rest(".z", shape.value_heads * shape.value_size,
               of_each_group(qkvz, shape.key_heads, group, {2 * shape.key_size + values, values}));
  net.b = rest(".b", shape.value_heads, of_each_group(ba, shape.key_heads, 2 * ratio, {0, ratio}));
  net.a = rest(".a", shape.value_heads, of_each_group(ba, shape.key_heads, 2 * ratio, {ratio, ratio}));
}

}  // namespace

DeltaNet delta_net(Source source, const std::string& module, const DeltaShape& shape, bool grouped) {
  WeightPlan& plan = source.plan;
  DeltaNet net{.epsilon = read_epsilon(source.config),
               .key_heads = shape.key_heads,
               .value_heads = shape.value_heads,
               .taps = shape.taps,
               .key_size = shape.key_size,
               .value_size = shape.value_size};
  const int64_t value_width = shape.value_heads * shape.value_size;
  if (plan.has(module + ".in_proj_qkvz.weight", grouped)) {
    grouped_projections(source, module, shape, net);
  } else {
    net.qkv = plan.matrix(module + ".in_proj_qkv", net.channels(), shape.width);
    net.z = plan.matrix(module + ".in_proj_z", value_width, shape.width);
    net.b = plan.matrix(module + ".in_proj_b", shape.value_heads, shape.width);
    net.a = plan.matrix(module + ".in_proj_a", shape.value_heads, shape.width);
  }
  net.output = plan.matrix(module + ".out_proj", shape.width, value_width);
  net.conv = plan.vector(module + ".conv1d.weight", {net.channels(), shape.taps});
  net.a_log = plan.vector(module + ".A_log", {shape.value_heads});
  net.dt_bias = plan.vector(module + ".dt_bias", {shape.value_heads});
  net.norm = plan.vector(module + ".norm.weight", {shape.value_size});
  return net;
}

std::vector<std::string> hybrid_layer_types(Source source, int layers) {
  std::vector<std::string> types = source.config.texts("layer_types");
  const int64_t interval = source.config.size_of({"full_attention_interval"}, 4);
  if (types.empty())
    for (int layer = 0; layer < layers; ++layer)
      types.push_back((layer + 1) % interval == 0 ? "full_attention" : "linear_attention");
  if (std::ssize(types) != layers)
    source.config.refuse("layer_types", fmt::format("has {} entries for {} layers", types.size(), layers));
  for (const std::string& type : types)
    if (type != "full_attention" && type != "linear_attention")
      source.config.refuse("layer_types", fmt::format("holds '{}'; known are linear_attention, full_attention", type));
  return types;
}

Trunk read_trunk(Source source, NormKind norms) {
  ConfigReader& config = source.config;
  config.expect("hidden_act", "silu");
  Trunk trunk{.prefix = source.plan.prefix({"model.language_model.", "model."}), .norms = norms};
  ModelSpec& model = trunk.model;
  model.family = config.text("model_type", "");
  model.width = config.size("hidden_size");
  model.vocabulary = config.size("vocab_size");
  model.layers = static_cast<int>(config.size("num_hidden_layers", kMostLayers));
  model.context = read_context(config, source.options.rope_scaling);
  model.embedding.table = source.plan.matrix(trunk.prefix + "embed_tokens", model.vocabulary, model.width);
  const bool tied = config.flag("tie_word_embeddings", false) || !source.plan.has("lm_head.weight", true);
  if (tied) source.plan.leave_out("lm_head.", "the head is tied to the embedding");
  model.head = tied ? model.embedding.table : source.plan.matrix("lm_head", model.vocabulary, model.width);
  return trunk;
}

ModelSpec finish_trunk(Source source, Trunk trunk) {
  trunk.model.final_norm = norm(source, trunk.prefix + "norm", trunk.model.width, trunk.norms);
  source.config.ignore({"architectures", "transformers_version", "dtype", "torch_dtype", "quantization_config",
                        "use_cache", "initializer_range", "attention_dropout", "bos_token_id", "eos_token_id",
                        "pad_token_id", "output_router_logits", "router_aux_loss_coef", "rope_theta", "_name_or_path",
                        "auto_map"});
  return std::move(trunk.model);
}

void read_mtp(Source source, ModelSpec& model, const AttentionShape& shape,
              const std::function<Part(const std::string&)>& ffn) {
  const int64_t layers = source.config.count("mtp_num_hidden_layers", 0, kMostLayers);
  source.config.expect("mtp_use_dedicated_embeddings", false);
  if (!source.plan.has("mtp.fc.weight", layers > 0)) {
    if (layers > 0) log::info("drafter absent: the checkpoint stores no mtp.* tensors");
    return;
  }
  Drafter drafter{.embedding_norm = norm(source, "mtp.pre_fc_norm_embedding", model.width, NormKind::OnePlus),
                  .hidden_norm = norm(source, "mtp.pre_fc_norm_hidden", model.width, NormKind::OnePlus),
                  .join = source.plan.matrix("mtp.fc", model.width, 2 * model.width)};
  for (int layer = 0; layer < std::max<int64_t>(layers, 1); ++layer) {
    const std::string at = fmt::format("mtp.layers.{}.", layer);
    drafter.branches.push_back({.norm = norm(source, at + "input_layernorm", model.width, NormKind::OnePlus),
                                .part = attention(source, at + "self_attn", shape),
                                .layer = layer});
    drafter.branches.push_back({.norm = norm(source, at + "post_attention_layernorm", model.width, NormKind::OnePlus),
                                .part = ffn(at + "mlp"),
                                .layer = layer});
  }
  drafter.final_norm = norm(source, "mtp.norm", model.width, NormKind::OnePlus);
  model.drafter = std::move(drafter);
}

}  // namespace braid::families
