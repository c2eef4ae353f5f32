// SPDX-License-Identifier: Apache-2.0
#include "ops/recurrent.h"

#include <gtest/gtest.h>

#include <cmath>

#include "ops/contract.h"

namespace braid {
namespace {

using Sequences = std::vector<SequenceRows>;

struct Mixer {
  int64_t key_heads = 2, value_heads = 4, keys = 16, values = 16, taps = 4;
  int64_t slots = 4;
  double gates = 2;  // size of a and b
};

DeltaRule mix(Case& c, const Mixer& m, const Sequences& sequences) {
  int64_t tokens = 0;
  for (const SequenceRows& sequence : sequences) tokens += sequence.rows;
  const int64_t channels = 2 * m.key_heads * m.keys + m.value_heads * m.values;
  const DType type = c.activation_type();
  DeltaRule op;
  op.out = c.strided_poison(type, tokens, m.value_heads * m.values);
  op.qkv = c.strided_numbers(tokens, channels, 2, type);
  op.z = c.strided_numbers(tokens, m.value_heads * m.values, 2, type);
  op.b = c.strided_numbers(tokens, m.value_heads, m.gates, type);
  op.a = c.strided_numbers(tokens, m.value_heads, m.gates, type);
  op.conv = c.numbers({channels, m.taps}, 1);
  op.a_log = c.numbers({m.value_heads}, 1.5);
  op.dt_bias = c.numbers({m.value_heads}, 2);
  op.norm = c.numbers({m.values}, 1.5);
  op.conv_state = c.numbers({m.slots, m.taps - 1, channels}, 2);
  op.state = c.numbers({m.slots, m.value_heads, m.keys, m.values}, 1);
  op.key_heads = static_cast<int32_t>(m.key_heads);
  op.value_heads = static_cast<int32_t>(m.value_heads);
  op.rows = c.rows(sequences);
  return op;
}

constexpr Mixer kMixers[] = {{.key_heads = 2, .value_heads = 2},
                             {.key_heads = 2, .value_heads = 4},
                             {.key_heads = 1, .value_heads = 3},
                             {.key_heads = 2, .value_heads = 2, .keys = 8, .values = 24},
                             {.key_heads = 1, .value_heads = 2, .keys = 24, .values = 8, .taps = 2},
                             {.key_heads = 1, .value_heads = 1, .keys = 5, .values = 3, .taps = 1},
                             {.key_heads = 1, .value_heads = 2, .keys = 32, .values = 64, .taps = 5}};

TEST(DeltaRule, HoldsForHeadRatiosAndSizes) {
  for (const Mixer& m : kMixers) {
    for (const int32_t rows : {1, 2, 5, 16, 63, 64, 65, 100})
      for (const int32_t first : {0, 1, 50}) hold([&](Case& c) -> Op { return mix(c, m, {{first, rows, 2}}); });
  }
}

TEST(DeltaRule, HoldsForEveryLength) {
  for (const int64_t ratio : {1, 2, 3}) {
    const Mixer m{.key_heads = 1, .value_heads = ratio, .keys = 8, .values = 8};
    for (int32_t rows = 1; rows <= 300; ++rows)
      hold([&](Case& c) -> Op { return mix(c, m, {{rows * 7 % 64, rows, 1}}); });
  }
}

TEST(DeltaRule, HoldsForTheSizesOfRealModels) {
  const Mixer m{.key_heads = 1, .value_heads = 2, .keys = 128, .values = 128};
  for (const int32_t rows : {1, 3, 70, 150}) hold([&](Case& c) -> Op { return mix(c, m, {{30, rows, 0}}); });
  for (const int64_t ratio : {1, 3}) {
    const Mixer of{.key_heads = 2, .value_heads = 2 * ratio, .keys = 128, .values = 128, .slots = 9};
    const Sequences sequences{{5, 1, 8}, {700, 1, 0}, {60, 7, 3}, {0, 0, 4}, {64, 64, 6}, {10, 2, 1}};
    hold([&](Case& c) -> Op { return mix(c, of, sequences); });
  }
}

// More than a GPU takes one at a time: value heads of a key head follow each other in a block.
TEST(DeltaRule, HoldsForManyHeads) {
  const Mixer m{.key_heads = 32, .value_heads = 32, .keys = 128, .values = 128, .slots = 9};
  const Sequences sequences{{5, 1, 8}, {64, 1, 1}, {6, 1, 2}, {3, 1, 3}, {9, 1, 4},
                            {7, 1, 5}, {1, 1, 6},  {0, 1, 7}, {63, 2, 0}};
  hold([&](Case& c) -> Op { return mix(c, m, sequences); }, 1, size_t{24} << 20);
  const Mixer of_three{.key_heads = 32, .value_heads = 96, .keys = 128, .values = 128, .slots = 3};
  hold([&](Case& c) -> Op { return mix(c, of_three, {{5, 1, 2}, {64, 1, 1}, {63, 2, 0}}); }, 2, size_t{24} << 20);
}

// So long that a GPU walks the sequence in parts; the second one has fewer chunks than parts.
TEST(DeltaRule, HoldsForLongSequencesOfFewHeads) {
  const Mixer m{.key_heads = 1, .value_heads = 1, .keys = 128, .values = 128};
  hold([&](Case& c) -> Op { return mix(c, m, {{100, 1700, 2}, {7, 70, 0}}); });
}

// Slots out of order; the slots that nobody names keep their bytes, which the case checks.
TEST(DeltaRule, HoldsForRaggedBatches) {
  for (const Mixer& m : kMixers) {
    Mixer many = m;
    many.slots = 9;
    for (const Sequences& sequences :
         {Sequences{{5, 1, 8}, {700, 1, 0}, {64, 1, 3}},
          Sequences{{5, 1, 7}, {0, 1, 2}, {60, 3, 0}, {0, 0, 4}, {64, 64, 6}, {10, 90, 1}, {0, 2, 3}}, Sequences{}})
      hold([&](Case& c) -> Op { return mix(c, many, sequences); });
  }
}

TEST(DeltaRule, HoldsForItsOptions) {
  for (const OutputGate gate : {OutputGate::Silu, OutputGate::Sigmoid})
    for (const float scale : {1.0f, 2.0f})
      for (const int32_t rows : {1, 80})
        hold([&](Case& c) -> Op {
          DeltaRule op = mix(c, {}, {{9, rows, 1}});
          op.gate = gate, op.beta_scale = scale, op.epsilon = 1e-5f;
          return op;
        });
}

TEST(DeltaRule, HoldsWhereGatesSaturate) {
  for (const double gates : {30.0, 300.0})
    for (const float a_log : {-12.0f, 0.0f, 3.0f})
      for (const int32_t rows : {1, 4, 90})
        hold([&](Case& c) -> Op {
          DeltaRule op = mix(c, {.gates = gates}, {{61, rows, 1}});
          op.a_log = c.floats({4}, {a_log, a_log, a_log, a_log});
          return op;
        });
}

TEST(DeltaRule, HoldsForZeroInputs) {
  for (const int32_t rows : {1, 80})
    hold([&](Case& c) -> Op {
      DeltaRule op = mix(c, {}, {{0, rows, 1}});
      op.qkv = c.numbers({rows, op.qkv.width()}, 0);
      op.conv_state = c.numbers({4, 3, op.qkv.width()}, 0);
      return op;
    });
}

// Cuts `op`, which has one sequence in the given slot, at the given rows.
std::vector<Op> cut(Case& c, const DeltaRule& op, const SequenceRows& whole, const std::vector<int32_t>& lengths) {
  std::vector<Op> steps;
  int32_t row = 0;
  for (const int32_t length : lengths) {
    DeltaRule step = op;
    for (Tensor* tensor : {&step.out, &step.qkv, &step.z, &step.b, &step.a}) *tensor = tensor->slice_rows(row, length);
    step.rows = c.rows({{whole.first_position + row, length, whole.slot}});
    steps.emplace_back(step);
    row += length;
  }
  return steps;
}

TEST(DeltaRule, CarriesItsStateOverSeveralCalls) {
  const SequenceRows whole{.first_position = 20, .rows = 150, .slot = 1};
  for (Subject& subject : subjects()) {
    for (const std::vector<int32_t>& lengths :
         {std::vector<int32_t>{44, 64, 42}, {1, 149}, {149, 1}, {2, 1, 1, 66, 80}, std::vector<int32_t>(150, 1)}) {
      for (const Mixer& m : {kMixers[1], kMixers[4]}) {
        Case c(subject);
        const DeltaRule op = mix(c, m, {whole});
        EXPECT_EQ(c.run_as(op, cut(c, op, whole, lengths)), "") << subject.name << ", first " << lengths[0];
      }
    }
  }
}

// Cut at absolute multiples of 64, nothing changes at all.
TEST(DeltaRule, ChunkBordersKeepTheBits) {
  struct Cut {
    SequenceRows whole;
    std::vector<int32_t> lengths;
  };
  const Cut cuts[] = {{{.first_position = 20, .rows = 150, .slot = 1}, {44, 64, 42}},
                      {{.first_position = 63, .rows = 66, .slot = 1}, {1, 64, 1}}};
  const Mixer sizes[] = {{}, {.key_heads = 1, .value_heads = 2, .keys = 128, .values = 128}};
  for (size_t n = 0; n < 4 * subjects().size(); ++n) {
    Subject& subject = subjects()[n / 4];
    const auto& [whole, lengths] = cuts[n / 2 % 2];
    Case c(subject), d(subject);
    const DeltaRule at_once = mix(c, sizes[n % 2], {whole}), in_parts = mix(d, sizes[n % 2], {whole});
    c.just_run(at_once);
    for (const Op& step : cut(d, in_parts, whole, lengths)) d.just_run(step);
    for (int64_t i = 0; i < at_once.state.elements(); ++i)
      ASSERT_EQ(at_once.state.as<float>()[i], in_parts.state.as<float>()[i]) << subject.name;
    for (int64_t t = 0; t < whole.rows; ++t)
      for (int64_t i = 0; i < at_once.out.width(); ++i)
        ASSERT_EQ(at_once.out.row<float>(t)[i], in_parts.out.row<float>(t)[i]) << subject.name << " row " << t;
  }
}

// The bound of the op allows for the worst case; on ordinary numbers the relative error is far smaller (GDN-T).
TEST(DeltaRule, StaysWithinRelativeErrorOnOrdinaryNumbers) {
  for (Subject& subject : subjects()) {
    for (const int32_t rows : {1, 200}) {
      Case c(subject);
      const DeltaRule op = mix(c, {.key_heads = 1, .value_heads = 2, .keys = 64, .values = 64}, {{7, rows, 1}});
      const std::vector<Expected> pieces = expected_of(op, kExactPrecision);
      c.just_run(op);
      for (const Expected& piece : pieces) {
        double off = 0, size = 0;
        const auto* found = piece.where.as<float>();
        for (int64_t i = 0; i < piece.where.elements(); ++i) {
          const int64_t at =
              i / piece.where.width() * piece.where.stride(piece.where.rank - 2) + i % piece.where.width();
          const double value = piece.values[static_cast<size_t>(i)];
          off += (found[at] - value) * (found[at] - value), size += value * value;
        }
        EXPECT_LE(std::sqrt(off / size), 1e-5) << subject.name << " " << piece.argument << ", rows " << rows;
      }
    }
  }
}

TEST(DeltaRule, AgreesWithTheFormulaByHand) {
  Case c(reference_subject());
  DeltaRule op;
  op.out = c.poison(DType::F32, {1, 1});
  op.qkv = c.floats({1, 3}, {1, 2, 3});
  op.z = c.floats({1, 1}, {0.5f});
  op.b = c.floats({1, 1}, {0.25f});
  op.a = c.floats({1, 1}, {1});
  op.conv = c.floats({3, 2}, {1, 2, 1, 2, 1, 2});
  op.a_log = c.floats({1}, {0.5f});
  op.dt_bias = c.floats({1}, {-0.5f});
  op.norm = c.floats({1}, {3});
  op.conv_state = c.floats({1, 1, 3}, {4, 5, 6});
  op.state = c.floats({1, 1, 1, 1}, {0.75f});
  op.key_heads = op.value_heads = 1;
  op.epsilon = 0.125f;
  op.rows = c.rows({{0, 1, 0}});
  c.just_run(op);
  const auto sigmoid = [](double x) { return 1 / (1 + std::exp(-x)); };
  const double q = 6 * sigmoid(6), k = 9 * sigmoid(9), v = 12 * sigmoid(12);
  const double key = k / std::sqrt(k * k + 1e-6), query = q / std::sqrt(q * q + 1e-6);
  const double decay = std::exp(-std::exp(0.5) * std::log(1 + std::exp(0.5)));
  const double u = sigmoid(0.25) * (v - decay * 0.75 * key);
  const double state = decay * 0.75 + key * u, o = state * query;
  EXPECT_FLOAT_EQ(op.state.as<float>()[0], static_cast<float>(state));
  EXPECT_FLOAT_EQ(op.out.as<float>()[0], static_cast<float>(o / std::sqrt(o * o + 0.125) * 3 * 0.5 * sigmoid(0.5)));
  EXPECT_EQ(op.conv_state.as<float>()[2], 3);
}

TEST(DeltaRule, AChangedInputIsSeen) {
  for (const int32_t rows : {1, 90}) {
    const auto make = [&](Case& c) -> Op { return mix(c, {}, {{9, rows, 1}}); };
    plant(make, [&](Op& op) { return std::get<DeltaRule>(op).qkv.row<float>(rows - 1) + 70; });
    plant(make, [&](Op& op) { return std::get<DeltaRule>(op).z.row<float>(rows / 2) + 3; });
    plant(make, [&](Op& op) { return std::get<DeltaRule>(op).a.row<float>(rows - 1) + 1; });
    plant(make, [&](Op& op) { return std::get<DeltaRule>(op).b.row<float>(rows - 1) + 2; });
    plant(make, [&](Op& op) { return std::get<DeltaRule>(op).conv.row<float>(80) + 1; });
    plant(make, [&](Op& op) { return std::get<DeltaRule>(op).conv_state.row<float>(1) + 5; });
    plant(make, [&](Op& op) { return std::get<DeltaRule>(op).norm.as<float>() + 5; });
  }
  plant(
      [](Case& c) -> Op {
        return mix(c, {}, {{9, 1, 1}});
      },
      [](Op& op) { return std::get<DeltaRule>(op).state.row<float>(1) + 5; });
}

}  // namespace
}  // namespace braid
