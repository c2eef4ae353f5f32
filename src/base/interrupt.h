// Ctrl-C as something that long work asks for, so that what it would leave half done is cleared away.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>

namespace braid {

// Thrown where work ends because of Ctrl-C. Not an Error: nothing is wrong.
struct Interrupted {};

// What a second Ctrl-C does while the first is not forgotten.
enum class Again : uint8_t { Ends, IsCaught };

// From now on Ctrl-C sets a flag instead of ending the program. A program calls this, never the library.
void catch_interrupts(Again again);
const std::atomic<bool>& interrupted();
// Throws Interrupted when the flag is set.
void check_interrupted();
// Forgets every Ctrl-C so far.
void forget_interrupts();
// Readable from a Ctrl-C on until it is forgotten, so that whoever waits for input wakes up whichever thread took the
// signal.
int interrupt_descriptor();

}  // namespace braid
