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

}  // namespace

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
