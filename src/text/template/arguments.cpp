// SPDX-License-Identifier: Apache-2.0
#include "text/template/arguments.h"

#include <algorithm>

#include "text/template/numbers.h"

namespace braid::jinja {

Bound::Bound(const Arguments& arguments, const Signature& signature)
    : function_(signature.function), names_(signature.parameters), values_(signature.parameters.size()) {
  if (arguments.positional.size() > names_.size()) {
    raise("{}() takes at most {} arguments ({} given)", function_, names_.size(), arguments.positional.size());
  }
  std::copy(arguments.positional.begin(), arguments.positional.end(), values_.begin());
  for (const auto& [name, value] : arguments.named) {
    const auto found = std::find(names_.begin() + static_cast<std::ptrdiff_t>(signature.unnamed), names_.end(), name);
    if (found == names_.end()) raise("{}() got an unexpected keyword argument '{}'", function_, name);
    auto& slot = values_[static_cast<size_t>(found - names_.begin())];
    if (slot) raise("{}() got multiple values for argument '{}'", function_, name);
    slot = value;
  }
  for (size_t i = 0; i < signature.required; ++i) {
    if (!values_[i]) raise("{}() missing required argument: '{}'", function_, names_[i]);
  }
}

bool Bound::flag(size_t at, bool missing) const { return values_[at] ? truthy(*values_[at]) : missing; }

int64_t Bound::integer(size_t at, int64_t missing) const {
  return values_[at] ? index_argument(*values_[at], names_[at]) : missing;
}

std::optional<std::string> Bound::text(size_t at) const {
  if (!values_[at] || values_[at]->is_none()) return std::nullopt;
  const Text* text = values_[at]->as_text();
  if (!text) raise("{}() argument '{}' must be str, not {}", function_, names_[at], type_name(*values_[at]));
  return text->bytes();
}

}  // namespace braid::jinja
