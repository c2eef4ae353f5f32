// How many threads are worth starting on this machine.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace braid::cpu {

// One thread per core that this process may run on, though not more than its control group's share of time allows.
int useful_threads();

// Cores among these processors, by `<folder>/cpu<N>/topology/thread_siblings_list`; a processor without that file
// counts as a core of its own.
int count_cores(const std::string& folder, std::span<const int> processors);
// Processors that a control group's `cpu.max` ("<quota> <period>" or "max <period>") grants, rounded, at least 1; 0
// where it sets no limit or says something else.
int granted_processors(std::string_view cpu_max);

}  // namespace braid::cpu
