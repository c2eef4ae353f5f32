// How deep the tree of an expression is, which bounds the stack that evaluating and freeing it need.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "text/template/syntax_tree.h"

namespace braid::jinja {

// One more than the deepest part of `node`. Throws SyntaxFault at `line` where that is too deep.
int checked_depth(const ExpressionNode& node, int line);

}  // namespace braid::jinja
