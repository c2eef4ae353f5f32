// Formats: literal text, schemas and free text put together, as tool calls need them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/json.h"
#include "text/grammar/productions.h"
#include "text/grammar/schema/schema.h"
#include "text/grammar/token_trie.h"

namespace braid {

struct FormatContext {
  const TokenTrie& trie;  // special tokens that literals name are those tokens
  const SchemaOptions& options;
};

// An object with "type":
//   const_string {value}, json_schema {json_schema}, regex {pattern}, grammar {grammar}, any_text {},
//   sequence {elements}, or {elements}, tag {begin, content, end} (content any_text ends at `end`),
//   triggered_tags {triggers, tags, at_least_one, stop_after_first}: free text in which a trigger begins a tag,
//   tags_with_separator {tags, separator, at_least_one, stop_after_first},
//   xml_parameters {json_schema}: <parameter=name>\nvalue\n</parameter>\n for each property,
//   structural_tag {format}; and without a type {structures: [{begin, schema, end}], triggers}.
// Faults are Input errors that name the place.
ExpressionId format_expression(const Json& format, Productions& productions, const FormatContext& context);

}  // namespace braid
