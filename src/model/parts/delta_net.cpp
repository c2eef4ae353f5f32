// SPDX-License-Identifier: Apache-2.0
#include "model/parts/delta_net.h"

#include <fmt/format.h>

#include "model/step.h"

namespace braid {

void apply(Step& step, const DeltaNet& net, Tensor x, Tensor out) {
  const int64_t value_width = net.value_heads * net.value_size;
  Tensor qkv = step.activations(net.channels()), z = step.activations(value_width);
  // The gates steer an exponential decay: they stay f32 whatever the activations are. Before the large products, whose
  // weights an executor can ask for meanwhile.
  Tensor b = step.allocate(DType::F32, {x.rows(), net.value_heads});
  Tensor a = step.allocate(DType::F32, {x.rows(), net.value_heads});
  step.run(Linear{.x = x,
                  .targets = {{{.out = b, .weight = step.matrix(net.b)}, {.out = a, .weight = step.matrix(net.a)}}},
                  .exact = true});
  step.run(Linear{
      .x = x, .targets = {{{.out = qkv, .weight = step.matrix(net.qkv)}, {.out = z, .weight = step.matrix(net.z)}}}});
  Tensor mixed = step.activations(value_width);
  step.run(DeltaRule{.out = mixed,
                     .qkv = qkv,
                     .z = z,
                     .b = b,
                     .a = a,
                     .conv = step.vector(net.conv),
                     .a_log = step.vector(net.a_log),
                     .dt_bias = step.vector(net.dt_bias),
                     .norm = step.vector(net.norm),
                     .conv_state = step.slots(net.conv_state, {net.taps - 1, net.channels()}),
                     .state = step.slots(net.state, {net.value_heads, net.key_size, net.value_size}),
                     .key_heads = net.key_heads,
                     .value_heads = net.value_heads,
                     .epsilon = net.epsilon,
                     .beta_scale = net.beta_scale,
                     .gate = net.gate,
                     .rows = step.rows()});
  step.run(Linear{.x = mixed, .targets = {{{.out = out, .weight = step.matrix(net.output)}}}});
}

void claim_state(DeltaNet& net, DType, const std::string& name, std::vector<StateNeed>& needs) {
  net.conv_state = {static_cast<int>(needs.size())};
  needs.push_back({.name = name + ".conv", .bytes_per_sequence = (net.taps - 1) * net.channels() * 4});
  net.state = {static_cast<int>(needs.size())};
  needs.push_back({.name = name + ".state", .bytes_per_sequence = net.value_heads * net.key_size * net.value_size * 4});
}

std::string describe(const DeltaNet& net) {
  return fmt::format("delta net {} key heads of {}, {} value heads of {}, {} taps{}", net.key_heads, net.key_size,
                     net.value_heads, net.value_size, net.taps,
                     net.gate == OutputGate::Sigmoid ? ", sigmoid gate" : "");
}

}  // namespace braid
