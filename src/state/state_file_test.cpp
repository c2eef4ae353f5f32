// SPDX-License-Identifier: Apache-2.0
#include "state/state_file.h"

#include <gtest/gtest.h>

#include <cstring>
#include <fstream>
#include <random>

#include "base/error.h"

namespace braid {
namespace {

const StateShape kShape{.identity = 7, .page_tokens = 16, .page_bytes = 64, .slot_bytes = 8, .vocabulary = 50};

SavedState example() {
  SavedState state{.identity = 7, .first = 16, .tokens = std::vector<int32_t>(40, 3)};
  state.tokens[17] = 49;
  state.pages.resize(128, std::byte{5});
  state.slot.resize(8, std::byte{9});
  return state;
}

std::string refusal(std::vector<std::byte> file) {
  try {
    decode_state(file, kShape);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::Input);
    return error.message();
  }
  return "";
}

TEST(StateFile, ComesBackAsItWasSaved) {
  const SavedState state = example(), read = decode_state(encode_state(state), kShape);
  EXPECT_EQ(read.first, 16);
  EXPECT_EQ(read.tokens, state.tokens);
  EXPECT_EQ(read.pages, state.pages);
  EXPECT_EQ(read.slot, state.slot);
}

TEST(StateFile, EveryDamageIsRefused) {
  const std::vector<std::byte> whole = encode_state(example());
  EXPECT_EQ(refusal(whole), "");
  for (size_t size = 0; size < whole.size(); ++size) EXPECT_NE(refusal({whole.begin(), whole.begin() + size}), "");
  for (size_t at = 0; at < whole.size(); ++at)
    for (int bit = 0; bit < 8; ++bit) {
      std::vector<std::byte> damaged = whole;
      damaged[at] ^= std::byte(1 << bit);
      EXPECT_NE(refusal(damaged), "") << at;
    }
}

TEST(StateFile, WhatDoesNotFitIsRefusedThoughItsChecksumIsRight) {
  const auto changed = [](auto&& change) {
    SavedState state = example();
    change(state);
    return refusal(encode_state(state));
  };
  EXPECT_EQ(changed([](SavedState& s) { s.identity = 8; }), "made by another model, or for another way to compute it");
  EXPECT_EQ(changed([](SavedState& s) { s.first = 17; }), "begins at token 17 of 40");
  EXPECT_EQ(changed([](SavedState& s) { s.first = 48; }), "begins at token 48 of 40");
  EXPECT_EQ(changed([](SavedState& s) { s.first = -16; }), "begins at token 18446744073709551600 of 40");
  EXPECT_EQ(changed([](SavedState& s) { s.tokens[0] = 50; }), "holds token 50 of a vocabulary of 50");
  EXPECT_EQ(changed([](SavedState& s) { s.pages.resize(64); }),
            "has 64 bytes of pages and 8 of a slot, expected 128 and 8");
}

TEST(StateFile, AFileIsWholeOrNotThere) {
  const auto folder = std::filesystem::path(::testing::TempDir()) / "state_file_test";
  std::filesystem::create_directories(folder);
  const std::vector<std::byte> bytes = encode_state(example());
  write_whole(folder / "a", bytes);
  EXPECT_EQ(std::filesystem::file_size(folder / "a"), bytes.size());
  EXPECT_FALSE(std::filesystem::exists(folder / "a.part"));
  EXPECT_THROW(write_whole(folder / "none" / "a", bytes), Error);
  if (std::filesystem::exists("/dev/full")) {
    std::filesystem::create_symlink("/dev/full", folder / "full.part");
    EXPECT_THROW(write_whole(folder / "full", bytes), Error);
    EXPECT_FALSE(std::filesystem::exists(folder / "full"));
  }
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace braid
