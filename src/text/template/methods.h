// Methods of strings, dicts, lists and the like that templates may call.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string_view>

#include "text/template/value.h"

namespace braid::jinja {

using Method = Value (*)(Interpreter&, const Value& self, const Arguments&);

// The method as a function, or null where the type has none of that name.
Method find_method(const Value& value, std::string_view name);
// The method bound to its value.
std::optional<Value> method_of(const Value& value, std::string_view name);
// Methods that would change the value, and the double-underscore ones, which a template may not call.
bool mutates(const Value& value, std::string_view name);

Method find_text_method(std::string_view name);

}  // namespace braid::jinja
