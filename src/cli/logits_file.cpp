// SPDX-License-Identifier: Apache-2.0
#include "cli/logits_file.h"

#include <cstring>

#include "base/error.h"
#include "base/hash.h"

namespace braid::cli {
namespace {

constexpr uint32_t kVersion = 2;

struct Header {
  char magic[8] = {'B', 'R', 'A', 'I', 'D', 'L', 'G', 'T'};
  uint32_t version = kVersion;
  uint32_t vocabulary = 0;
  uint64_t rows = 0, longest = 0, stride = 0, text = 0;
  uint64_t hash = 0;  // of the fields above and of the rows' hashes
};
static_assert(sizeof(Header) == 56);

uint64_t hash_of(std::span<const std::byte> bytes) {
  Hash hash;
  hash.add(bytes);
  return hash.value();
}

uint64_t hash_of(const Header& header, std::span<const std::byte> row_hashes) {
  Hash hash;
  hash.add(std::as_bytes(std::span(&header, 1)).first(offsetof(Header, hash)));
  hash.add(row_hashes);
  return hash.value();
}

int64_t row_offset(const LogitsSubject& subject, int64_t row) {
  return static_cast<int64_t>(sizeof(Header)) + 8 * subject.rows + 4 * subject.vocabulary * row;
}

}  // namespace

LogitsWriter::LogitsWriter(const std::string& file, const LogitsSubject& subject)
    : subject_(subject), hashes_(static_cast<size_t>(subject.rows)), out_(file) {}

void LogitsWriter::write(int64_t row, std::span<const float> logits) {
  const auto bytes = std::as_bytes(logits);
  hashes_[static_cast<size_t>(row)] = hash_of(bytes);
  out_.write_at(row_offset(subject_, row), bytes);
  ++written_;
}

void LogitsWriter::finish() {
  CHECK(written_ == subject_.rows, "{} of {} rows", written_, subject_.rows);
  Header header{.vocabulary = static_cast<uint32_t>(subject_.vocabulary),
                .rows = static_cast<uint64_t>(subject_.rows),
                .longest = static_cast<uint64_t>(subject_.longest),
                .stride = static_cast<uint64_t>(subject_.stride),
                .text = subject_.text};
  const auto hashes = std::as_bytes(std::span(hashes_));
  header.hash = hash_of(header, hashes);
  out_.write_at(0, std::as_bytes(std::span(&header, 1)));
  out_.write_at(sizeof header, hashes);
  out_.finish();
}

LogitsReader::LogitsReader(const std::string& file, const LogitsSubject& subject)
    : file_(file), bytes_(file), subject_(subject) {
  const auto bytes = bytes_.bytes();
  Header header;
  if (bytes.size() < sizeof header || std::memcmp(bytes.data(), header.magic, sizeof header.magic) != 0)
    fail("{}: not a file of logits", file);
  std::memcpy(&header, bytes.data(), sizeof header);
  if (header.version != kVersion)
    fail("{}: is of version {} and {} is read: write it anew with --save-logits", file, header.version, kVersion);
  const uint64_t hashes = (bytes.size() - sizeof header) / 8;
  if (header.rows > hashes ||
      header.hash != hash_of(header, bytes.subspan(sizeof header, 8 * static_cast<size_t>(header.rows))))
    fail("{}: its head is damaged", file);
  if (header.vocabulary != subject.vocabulary)
    fail("{}: holds logits of {} tokens, and the model has {}", file, header.vocabulary, subject.vocabulary);
  if (header.longest != static_cast<uint64_t>(subject.longest) ||
      header.stride != static_cast<uint64_t>(subject.stride))
    fail("{}: was made with --max-tokens {} and --stride {}, and these are {} and {} here", file, header.longest,
         header.stride, subject.longest, subject.stride);
  if (header.text != subject.text || header.rows != static_cast<uint64_t>(subject.rows))
    fail("{}: was made from another text, or with another tokenizer or --separator", file);
  if (std::ssize(bytes) != row_offset(subject, subject.rows)) fail("{}: is cut short: {} bytes", file, bytes.size());
}

std::span<const float> LogitsReader::row(int64_t row) const {
  const auto bytes = bytes_.bytes().subspan(static_cast<size_t>(row_offset(subject_, row)),
                                            static_cast<size_t>(4 * subject_.vocabulary));
  uint64_t expected = 0;
  std::memcpy(&expected, bytes_.bytes().data() + sizeof(Header) + 8 * row, sizeof expected);
  if (hash_of(bytes) != expected) fail("{}: row {} is damaged", file_, row);
  return {reinterpret_cast<const float*>(bytes.data()), static_cast<size_t>(subject_.vocabulary)};
}

}  // namespace braid::cli
