// SPDX-License-Identifier: Apache-2.0
#include "state/state_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>

#include "base/error.h"

namespace braid {
namespace {

constexpr std::string_view kMagic = "BRAIDST1";
constexpr size_t kWords = 5, kHeader = 8 + kWords * 8, kTrailer = 8;

void append(std::vector<std::byte>& out, std::span<const std::byte> bytes) {
  const size_t before = out.size();
  out.resize(before + bytes.size());
  std::ranges::copy(bytes, out.begin() + static_cast<std::ptrdiff_t>(before));
}

// A descriptor that is closed whatever happens.
class File {
 public:
  File(const std::filesystem::path& path, int flags) : path_(path), descriptor_(::open(path.c_str(), flags, 0600)) {
    if (descriptor_ < 0) refuse();
  }
  ~File() { ::close(descriptor_); }
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  void write(std::span<const std::byte> bytes) {
    while (!bytes.empty()) {
      const ssize_t count = ::write(descriptor_, bytes.data(), bytes.size());
      if (count < 0 && errno == EINTR) continue;
      if (count <= 0) refuse();
      bytes = bytes.subspan(static_cast<size_t>(count));
    }
  }
  void flush() {
    if (::fsync(descriptor_) != 0) refuse();
  }

 private:
  [[noreturn]] void refuse() const { fail(ErrorKind::Resource, "{}: {}", path_.string(), std::strerror(errno)); }
  std::filesystem::path path_;
  int descriptor_;
};

}  // namespace

// Eight bytes at a time: multiplied, and folded by the high half, so that every bit moves all others.
uint64_t checksum(std::span<const std::byte> bytes, uint64_t seed) {
  uint64_t sum = seed ^ 0x9E3779B97F4A7C15;
  const auto mix = [&](uint64_t word) {
    const auto product = static_cast<unsigned __int128>(sum ^ word) * 0xD6E8FEB86659FD93;
    sum = static_cast<uint64_t>(product) ^ static_cast<uint64_t>(product >> 64) ^ 0xA0761D6478BD642F;
  };
  size_t at = 0;
  for (uint64_t word = 0; at + 8 <= bytes.size(); at += 8) {
    std::memcpy(&word, bytes.data() + at, 8);
    mix(word);
  }
  uint64_t rest = 0;
  if (at < bytes.size()) std::memcpy(&rest, bytes.data() + at, bytes.size() - at);
  mix(rest);
  mix(bytes.size());
  return sum;
}

std::vector<std::byte> encode_state(const SavedState& state) {
  std::vector<std::byte> out;
  out.reserve(kHeader + state.tokens.size() * 4 + state.pages.size() + state.slot.size() + kTrailer);
  append(out, std::as_bytes(std::span(kMagic)));
  const uint64_t words[kWords] = {state.identity, static_cast<uint64_t>(state.first), state.tokens.size(),
                                  state.pages.size(), state.slot.size()};
  append(out, std::as_bytes(std::span(words)));
  append(out, std::as_bytes(std::span(state.tokens)));
  append(out, std::as_bytes(std::span(state.pages)));
  append(out, std::as_bytes(std::span(state.slot)));
  const uint64_t sum[1] = {checksum(out)};
  append(out, std::as_bytes(std::span(sum)));
  return out;
}

SavedState decode_state(std::span<const std::byte> file, const StateShape& shape) {
  if (file.size() < kHeader + kTrailer || std::memcmp(file.data(), kMagic.data(), kMagic.size()) != 0)
    fail("not a file of kept state, or one of another version");
  uint64_t words[kWords];
  std::memcpy(words, file.data() + kMagic.size(), sizeof words);
  const auto [identity, first, tokens, page_bytes, slot_bytes] = words;
  if (identity != shape.identity) fail("made by another model, or for another way to compute it");
  // No sum of these can overflow once each is below the size of the file.
  const size_t size = file.size();
  if (tokens == 0 || tokens > size / 4 || page_bytes > size || slot_bytes > size ||
      kHeader + tokens * 4 + page_bytes + slot_bytes + kTrailer != size)
    fail("its {} bytes are not what its header says", size);
  const auto page_tokens = static_cast<uint64_t>(shape.page_tokens);
  if (first % page_tokens != 0 || first >= tokens) fail("begins at token {} of {}", first, tokens);
  const uint64_t pages = (tokens - first + page_tokens - 1) / page_tokens;
  if (page_bytes != pages * static_cast<uint64_t>(shape.page_bytes) ||
      slot_bytes != static_cast<uint64_t>(shape.slot_bytes))
    fail("has {} bytes of pages and {} of a slot, expected {} and {}", page_bytes, slot_bytes,
         pages * static_cast<uint64_t>(shape.page_bytes), shape.slot_bytes);
  SavedState state{.identity = identity, .first = static_cast<int64_t>(first)};
  const std::byte* at = file.data() + kHeader;
  state.tokens.resize(tokens);
  std::memcpy(state.tokens.data(), at, tokens * 4);
  for (const int32_t token : state.tokens)
    if (token < 0 || token >= shape.vocabulary) fail("holds token {} of a vocabulary of {}", token, shape.vocabulary);
  at += tokens * 4;
  state.pages.assign(at, at + page_bytes);
  state.slot.assign(at + page_bytes, at + page_bytes + slot_bytes);
  uint64_t sum = 0;
  std::memcpy(&sum, file.data() + size - kTrailer, kTrailer);
  if (sum != checksum(file.first(size - kTrailer))) fail("its checksum is wrong");
  return state;
}

void write_whole(const std::filesystem::path& path, std::span<const std::byte> bytes) {
  std::filesystem::path beside = path;
  beside += kHalfWritten;
  try {
    File file(beside, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC);
    file.write(bytes);
    file.flush();
  } catch (...) {
    ::unlink(beside.c_str());
    throw;
  }
  if (::rename(beside.c_str(), path.c_str()) != 0)
    fail(ErrorKind::Resource, "{}: {}", path.string(), std::strerror(errno));
  const std::filesystem::path folder = path.has_parent_path() ? path.parent_path() : std::filesystem::path(".");
  File(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC).flush();
}

}  // namespace braid
