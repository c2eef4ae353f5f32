// JSON schema (draft 2020-12, its common part) as productions: the JSON texts that a schema allows.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "base/json.h"
#include "text/grammar/schema/json_text.h"

namespace braid {

struct SchemaOptions {
  WhiteSpace space = WhiteSpace::Bounded;
  // Objects whose schema does not speak of additionalProperties have none.
  bool closed_objects = false;
};

// Every text of the expression is a JSON text that the schema allows, with properties in the order of their
// declaration: those of `properties`, then `required` ones that are not declared, then others. What a schema says that
// cannot be kept is an Input error which names the keyword by its path (docs/grammar.md has the list).
ExpressionId schema_expression(const Json& schema, Productions& productions, const SchemaOptions& options);

// The same for some schemas of a document, which must all hold.
struct SchemaAt;
ExpressionId schema_expression(const Json& root, const std::vector<SchemaAt>& conjunction, Productions& productions,
                               const SchemaOptions& options);

// Any JSON object.
ExpressionId json_object_expression(Productions& productions, const SchemaOptions& options);

}  // namespace braid
