// Fuzz target: bytes as a tokenizer.json; what loads encodes and decodes a fixed text and the start of the input.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>

#include "base/error.h"
#include "base/log.h"
#include "base/utf8.h"
#include "text/tokenizer/tokenizer.h"

namespace braid {
namespace {

void use(const Tokenizer& tokenizer, std::string_view text) {
  for (const bool flag : {false, true}) {
    try {
      const std::vector<int32_t> ids = tokenizer.encode(text, {.add_special_tokens = flag, .parse_special = flag});
      const std::string whole = tokenizer.decode(ids, flag);
      std::string streamed;
      StreamDecoder stream(tokenizer, flag);
      for (const int32_t id : ids) streamed += stream.push(id);
      streamed += stream.finish();
      CHECK(streamed == whole, "streamed={} whole={}", streamed, whole);
      CHECK(is_utf8(whole), "whole={}", whole);
      for (const int32_t id : ids) CHECK(id >= 0, "id={}", id);
    } catch (const Error&) {
      // A pattern that exceeds its limits, or an unknown token that is not there.
    }
  }
}

}  // namespace
}  // namespace braid

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace braid;
  spdlog::set_level(spdlog::level::off);
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  try {
    const Tokenizer tokenizer = Tokenizer::from_json(bytes);
    use(tokenizer, "Hello, w\xC3\xB6rld!  12 \xF0\x9F\x98\x80 <s>\n\xFF\xE4\xB8");
    use(tokenizer, bytes.substr(0, 64));
  } catch (const Error&) {
    // Refused.
  }
  return 0;
}
