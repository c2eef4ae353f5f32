// Whether schemas exclude each other, as oneOf needs it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "text/grammar/schema/facts.h"

namespace braid {

// Throws an Input error where two of the conjunctions cannot be shown to have no value in common: by type, by
// constants, by bounds of numbers, or by a required property whose schemas are disjoint.
void check_disjoint(const FactsReader& reader, const std::vector<Conjunction>& choices, const SchemaAt& at);

}  // namespace braid
