// The built-in chat page, as it is sent.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

namespace braid::server {

std::string_view chat_page();

}  // namespace braid::server
