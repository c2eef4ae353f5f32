// Parameters of a tool call as XML-like text, one element for each property of a schema.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "text/grammar/schema/schema.h"

namespace braid {

// `<parameter=name>\nvalue\n</parameter>\n` for each property, in order of declaration. Values of type string are raw
// text that does not hold "\n</parameter>"; limits on them are kept by constants, patterns and lengths. Others are
// JSON.
ExpressionId xml_parameters_expression(const Json& schema, Productions& productions, const SchemaOptions& options);

}  // namespace braid
