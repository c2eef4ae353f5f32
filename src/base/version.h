// Which Braid this is: the project's version and the commit that was built.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

namespace braid {

// Such as "0.1.0".
std::string_view version();

// The first 12 digits of the commit, with "-dirty" behind them where the tree had changes; "unknown" outside a
// repository.
std::string_view commit();

}  // namespace braid
