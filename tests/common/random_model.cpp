// SPDX-License-Identifier: Apache-2.0
#include "random_model.h"

#include <fmt/format.h>

#include <cmath>

#include "base/rng.h"

namespace braid::tests {
namespace {

class Draw {
 public:
  explicit Draw(uint64_t seed) : seed_(seed) {}
  // Uniform in [low, high].
  int64_t between(int64_t low, int64_t high) {
    return low + static_cast<int64_t>(uniform(seed_, count_++, 0) * static_cast<float>(high - low + 1));
  }
  bool coin() { return between(0, 1) == 1; }
  template <typename T>
  T one_of(std::initializer_list<T> items) {
    return items.begin()[between(0, static_cast<int64_t>(items.size()) - 1)];
  }

 private:
  uint64_t seed_, count_ = 0;
};

class Builder {
 public:
  Builder(uint64_t seed, bool real_heads) : draw_(seed), real_(real_heads), plan_(nullptr, config(draw_)) {}

  RandomModel build() {
    ModelSpec model{.family = "random", .context = 512};
    model.width = real_ ? 128 : draw_.one_of<int64_t>({24, 32, 64, 72});
    width_ = model.width;
    model.vocabulary = draw_.between(40, 130);
    model.layers = static_cast<int>(real_ ? 2 : draw_.between(1, 4));
    model.embedding.table = plan_.matrix("embed", model.vocabulary, width_);
    model.head = draw_.coin() ? model.embedding.table : plan_.matrix("head", model.vocabulary, width_);
    for (int layer = 0; layer < model.layers; ++layer) {
      layer_ = layer;
      model.branches.push_back({.norm = norm("mixer_norm"), .part = mixer(), .layer = layer});
      model.branches.push_back({.norm = norm("ffn_norm"), .part = ffn(), .layer = layer});
    }
    model.final_norm = norm("final_norm");
    if (draw_.coin()) model.drafter = drafter();
    return {std::move(plan_), std::move(model)};
  }

 private:
  static Json config(Draw& draw) {
    Json json = {{"dtype", draw.one_of<const char*>({"bfloat16", "float32", "float16"})}};
    if (draw.coin())
      json["quantization_config"] = {
          {"quant_method", "fp8"}, {"weight_block_size", {128, 128}}, {"modules_to_not_convert", {"embed", "head"}}};
    return json;
  }
  std::string name(const char* what) { return fmt::format("layers.{}.{}.{}", layer_, count_++, what); }
  Norm norm(const char* what) {
    return {.weight = plan_.vector(name(what) + ".weight", {width_}), .epsilon = draw_.one_of({1e-6f, 1e-5f})};
  }
  MatrixId matrix(const char* what, int64_t rows, int64_t columns) { return plan_.matrix(name(what), rows, columns); }
  MatrixId gate_up(const char* what, int64_t count, int64_t inner) {
    PlannedMatrix planned{.name = name(what), .count = count, .rows = 2 * inner, .columns = width_};
    for (int64_t i = 0; i < count; ++i)
      for (const char* half : {"gate", "up"})
        planned.pieces.push_back({fmt::format("{}.{}.{}", planned.name, i, half), inner, 0, inner});
    return plan_.matrix(std::move(planned));
  }

  Attention attention() {
    const int64_t size = real_ ? draw_.one_of<int64_t>({64, 128, 256}) : 2 * draw_.between(4, 20);
    const auto kv_heads = static_cast<int32_t>(draw_.between(1, real_ ? 2 : 3));
    const auto heads = static_cast<int32_t>(kv_heads * draw_.between(1, 4));
    const bool gated = draw_.coin();
    Attention part{.query = matrix("q", heads * size * (gated ? 2 : 1), width_),
                   .key = matrix("k", kv_heads * size, width_),
                   .value = matrix("v", kv_heads * size, width_),
                   .output = matrix("o", width_, heads * size),
                   .epsilon = draw_.one_of({1e-6f, 1e-5f}),
                   .heads = heads,
                   .kv_heads = kv_heads,
                   .size = size,
                   .scale = 1.0f / std::sqrt(static_cast<float>(size)),
                   .window = draw_.coin() ? 0 : draw_.between(1, 90),
                   .gated = gated};
    if (draw_.coin()) {
      part.q_norm = plan_.vector(name("q_norm"), {size});
      part.k_norm = plan_.vector(name("k_norm"), {size});
    }
    if (draw_.between(0, 3) > 0) {
      std::vector<float> frequencies(static_cast<size_t>(draw_.between(1, size / 2)));
      for (size_t i = 0; i < frequencies.size(); ++i)
        frequencies[i] = std::pow(10000.0f, -static_cast<float>(i) / static_cast<float>(frequencies.size()));
      part.frequencies = plan_.constant(name("frequencies"), frequencies);
      part.rope_scale = draw_.one_of({1.0f, 1.25f});
    }
    return part;
  }

  DeltaNet delta_net() {
    const auto key_heads = static_cast<int32_t>(draw_.between(1, real_ ? 2 : 3));
    DeltaNet net{.epsilon = draw_.one_of({1e-6f, 1e-5f}),
                 .beta_scale = draw_.one_of({1.0f, 2.0f}),
                 .gate = draw_.one_of({OutputGate::Silu, OutputGate::Sigmoid}),
                 .key_heads = key_heads,
                 .value_heads = static_cast<int32_t>(key_heads * draw_.between(1, 3)),
                 .taps = static_cast<int32_t>(real_ ? 4 : draw_.between(2, 5)),
                 .key_size = real_ ? 128 : draw_.between(4, 24),
                 .value_size = real_ ? 128 : draw_.between(4, 24)};
    const int64_t values = net.value_heads * net.value_size;
    net.qkv = matrix("qkv", net.channels(), width_);
    net.z = matrix("z", values, width_);
    net.b = matrix("b", net.value_heads, width_);
    net.a = matrix("a", net.value_heads, width_);
    net.output = matrix("out", width_, values);
    net.conv = plan_.vector(name("conv1d.weight"), {net.channels(), net.taps});
    net.a_log = plan_.vector(name("A_log"), {net.value_heads});
    net.dt_bias = plan_.vector(name("dt_bias"), {net.value_heads});
    net.norm = plan_.vector(name("norm.weight"), {net.value_size});
    return net;
  }

  Part mixer() { return draw_.coin() ? Part{attention()} : Part{delta_net()}; }

  Part ffn() {
    const int64_t inner = 8 * draw_.between(2, 10);
    if (draw_.coin())
      return DenseFfn{.gate_up = gate_up("gate_up", 1, inner), .down = matrix("down", width_, inner), .inner = inner};
    const auto experts = static_cast<int32_t>(draw_.between(2, 7));
    MoeFfn part{.router = matrix("router", experts, width_),
                .gate_up = gate_up("experts.gate_up", experts, inner),
                .experts = experts,
                .chosen = static_cast<int32_t>(draw_.between(1, std::min(experts, 3))),
                .inner = inner,
                .normalise = draw_.coin()};
    PlannedMatrix down{.name = name("experts.down"), .count = experts, .rows = width_, .columns = inner};
    for (int64_t i = 0; i < experts; ++i)
      down.pieces.push_back({fmt::format("{}.{}", down.name, i), width_, 0, width_});
    part.down = plan_.matrix(std::move(down));
    if (draw_.coin()) {
      const int64_t shared = 8 * draw_.between(2, 8);
      part.shared = SharedExpert{.gate_up = gate_up("shared.gate_up", 1, shared),
                                 .down = matrix("shared.down", width_, shared),
                                 .inner = shared};
      if (draw_.coin()) part.shared->gate = matrix("shared.gate", 1, width_);
    }
    return part;
  }

  Drafter drafter() {
    Drafter out{.embedding_norm = norm("embedding_norm"),
                .hidden_norm = norm("hidden_norm"),
                .join = matrix("join", width_, 2 * width_)};
    out.branches.push_back({.norm = norm("mixer_norm"), .part = attention()});
    out.branches.push_back({.norm = norm("ffn_norm"), .part = ffn()});
    out.final_norm = norm("draft_norm");
    return out;
  }

  Draw draw_;
  bool real_;
  WeightPlan plan_;
  int64_t width_ = 0;
  int layer_ = 0, count_ = 0;
};

}  // namespace

RandomModel random_model(uint64_t seed, bool real_heads) { return Builder(seed, real_heads).build(); }

}  // namespace braid::tests
