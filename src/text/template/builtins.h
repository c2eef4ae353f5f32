// The filters and tests of templates, by name.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

#include "text/template/value.h"

namespace braid::jinja {

using Filter = Value (*)(Interpreter&, const Value& input, const Arguments&);
using Test = bool (*)(const Value& input, const Arguments&);

// Null where there is none of that name.
Filter find_filter(std::string_view name);
Test find_test(std::string_view name);

// The parts of find_filter's table.
Filter find_text_filter(std::string_view name);
Filter find_sequence_filter(std::string_view name);
Filter find_selection_filter(std::string_view name);

}  // namespace braid::jinja
