// String formatting after Python: "%s" % x, "{}".format(x) and format(x, spec).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

#include "text/template/value.h"

namespace braid::jinja {

// format % arguments, where a tuple gives several arguments and a dict gives named ones.
Value format_percent(const Text& format, const Value& arguments);
// format.format(*positional, **named)
std::string format_braces(std::string_view format, const Arguments& arguments);
// format(value, spec)
std::string format_value(const Value& value, std::string_view spec);

}  // namespace braid::jinja
