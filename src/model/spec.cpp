// SPDX-License-Identifier: Apache-2.0
#include "model/spec.h"

#include <fmt/format.h>

namespace braid {
namespace {

void append_branches(std::string& out, const std::vector<Branch>& branches, const char* place) {
  for (const Branch& branch : branches)
    out += fmt::format("{} {:>3}  {}\n", place, branch.layer,
                       std::visit([](const auto& part) { return describe(part); }, branch.part));
}

void claim_branches(std::vector<Branch>& branches, DType cache_type, const char* place, std::vector<StateNeed>& needs) {
  for (Branch& branch : branches)
    std::visit([&](auto& part) { claim_state(part, cache_type, fmt::format("{}.{}", place, branch.layer), needs); },
               branch.part);
}

}  // namespace

void claim_state(ModelSpec& model, DType cache_type) {
  model.needs.clear();
  claim_branches(model.branches, cache_type, "layers", model.needs);
  if (model.drafter) claim_branches(model.drafter->branches, cache_type, "draft", model.needs);
}

std::string describe(const ModelSpec& model) {
  std::string out = fmt::format("{}: width {}, {} layers, vocabulary {}, context {}{}\n", model.family, model.width,
                                model.layers, model.vocabulary, model.context,
                                model.head.index == model.embedding.table.index ? ", tied head" : "");
  append_branches(out, model.branches, "layer");
  if (model.drafter) {
    out += "drafter: join [embedding | hidden]\n";
    append_branches(out, model.drafter->branches, "draft");
  }
  return out;
}

}  // namespace braid
