// What a model is, as data: a residual stream, a list of branches that read it and write back, and a head.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "model/parts/attention.h"
#include "model/parts/delta_net.h"
#include "model/parts/dense_ffn.h"
#include "model/parts/moe_ffn.h"
#include "state/need.h"
#include "weights/plan.h"

namespace braid {

// RMS norm: x / sqrt(mean(x^2) + epsilon) * weight. The plan has already added 1 where a family stores w for 1+w.
struct Norm {
  VectorId weight;
  float epsilon = 1e-6f;
};

using Part = std::variant<Attention, DeltaNet, DenseFfn, MoeFfn>;

// stream += part(norm(stream)).
struct Branch {
  Norm norm;
  Part part;
  int layer = 0;  // of the checkpoint, for people and for taps
};

struct Embedding {
  MatrixId table;  // [vocabulary, width]
};

// Multi-token prediction (semantics 13.1): x = join [ norm(embed(next token)) | norm(hidden) ], then branches, then
// `final_norm`; embedding and head are the trunk's. Its branches own state of their own.
struct Drafter {
  Norm embedding_norm, hidden_norm;
  MatrixId join;  // [width, 2 width], the embedding's half first
  std::vector<Branch> branches;
  Norm final_norm;
};

struct ModelSpec {
  std::string family;  // model_type of the config
  int64_t width = 0, vocabulary = 0;
  int layers = 0;
  int64_t context = 0;  // longest context the config promises
  Embedding embedding;
  std::vector<Branch> branches;
  Norm final_norm;
  MatrixId head;  // [vocabulary, width]; the embedding's table when tied
  std::optional<Drafter> drafter;
  std::vector<StateNeed> needs;  // parts refer to these by MemoryId
};

// Gives every part its state, trunk first, and fills `needs`. Keys and values are stored as `cache_type`.
void claim_state(ModelSpec& model, DType cache_type);

// The spec as text, one line per branch, for `braid describe` and the families' goldens.
std::string describe(const ModelSpec& model);

}  // namespace braid
