// Makes the constraint that keeps an answer within a grammar.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "text/constraint.h"
#include "text/grammar/grammar.h"

namespace braid {

// From the first token of the answer on. Where the grammar's text is whole and cannot go on, the answer is finished. A
// token that the grammar does not take is an Input error: it was drawn against the mask.
std::unique_ptr<TokenConstraint> make_constraint(std::shared_ptr<const Grammar> grammar);

}  // namespace braid
