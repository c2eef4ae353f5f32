// Kept state as a file: what a sequence of tokens remembers, for another process of the same model.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string_view>
#include <vector>

namespace braid {

// The bytes of the pages from token `first` on, and of the slot. `first` is a multiple of the page size: where it is
// not 0, another file holds what comes before. `identity` is a hash of the layout, of the model, and of all else that
// two processes must agree on.
struct SavedState {
  uint64_t identity = 0;
  int64_t first = 0;
  std::vector<int32_t> tokens;  // from the start, at least one
  std::vector<std::byte> pages, slot;
};

// The sizes that a reader expects.
struct StateShape {
  uint64_t identity = 0;
  int64_t page_tokens = 0, page_bytes = 0, slot_bytes = 0, vocabulary = 0;
};

// Little endian: magic "BRAIDST1", then 64-bit words identity, first, tokens, page bytes, slot bytes; tokens as 32-bit
// words, pages, slot; at the end a checksum of everything before.
std::vector<std::byte> encode_state(const SavedState& state);
// An Input error in one line for anything but the whole file of a state of this shape.
SavedState decode_state(std::span<const std::byte> file, const StateShape& shape);

// Written beside its place under a name that ends so, flushed to the disk, and renamed: the file is whole or not there.
// A Resource error says what the system says.
inline constexpr std::string_view kHalfWritten = ".part";
void write_whole(const std::filesystem::path& path, std::span<const std::byte> bytes);

uint64_t checksum(std::span<const std::byte> bytes, uint64_t seed = 0);

}  // namespace braid
