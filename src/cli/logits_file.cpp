// SPDX-License-Identifier: Apache-2.0
#include "cli/logits_file.h"

#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "base/error.h"

namespace braid::cli {
namespace {

struct Header {
  char magic[8] = {'B', 'R', 'A', 'I', 'D', 'L', 'G', 'T'};
  uint32_t version = 1;
  uint32_t vocabulary = 0;
  uint64_t rows = 0;
};
static_assert(sizeof(Header) == 24);

}  // namespace

LogitsWriter::LogitsWriter(const std::string& file, int64_t rows, int64_t vocabulary)
    : file_(file), partial_(file + ".partial"), vocabulary_(vocabulary) {
  if (std::filesystem::exists(file) && !std::filesystem::is_regular_file(file)) fail("{}: is not a regular file", file);
  stream_ = std::fopen(partial_.c_str(), "wb");
  if (stream_ == nullptr) fail("{}: cannot be written: {}", partial_, std::strerror(errno));
  const Header header{.vocabulary = static_cast<uint32_t>(vocabulary), .rows = static_cast<uint64_t>(rows)};
  if (std::fwrite(&header, sizeof header, 1, stream_) != 1)
    fail(ErrorKind::Resource, "{}: cannot be written: {}", partial_, std::strerror(errno));
}

LogitsWriter::~LogitsWriter() {
  if (stream_ == nullptr) return;
  std::fclose(stream_);
  std::error_code ignored;
  std::filesystem::remove(partial_, ignored);
}

void LogitsWriter::write(int64_t row, std::span<const float> logits) {
  const auto at = static_cast<off_t>(sizeof(Header)) + static_cast<off_t>(row * vocabulary_ * 4);
  if (::fseeko(stream_, at, SEEK_SET) != 0 || std::fwrite(logits.data(), 4, logits.size(), stream_) != logits.size())
    fail(ErrorKind::Resource, "{}: cannot be written: {}", partial_, std::strerror(errno));
}

void LogitsWriter::finish() {
  const bool good = std::fflush(stream_) == 0 && ::fsync(::fileno(stream_)) == 0;
  const int reason = errno;
  std::fclose(stream_);
  stream_ = nullptr;
  if (!good) {
    std::filesystem::remove(partial_);
    fail(ErrorKind::Resource, "{}: cannot be written: {}", partial_, std::strerror(reason));
  }
  std::filesystem::rename(partial_, file_);
}

LogitsReader::LogitsReader(const std::string& file, int64_t rows, int64_t vocabulary)
    : bytes_(file), vocabulary_(vocabulary) {
  Header header;
  if (bytes_.bytes().size() < sizeof header) fail("{}: not a file of logits", file);
  std::memcpy(&header, bytes_.bytes().data(), sizeof header);
  if (std::memcmp(header.magic, Header().magic, 8) != 0 || header.version != 1) fail("{}: not a file of logits", file);
  if (header.vocabulary != vocabulary || header.rows != static_cast<uint64_t>(rows))
    fail("{}: holds {} rows of {} logits, and {} rows of {} are compared", file, header.rows, header.vocabulary, rows,
         vocabulary);
  if (bytes_.bytes().size() != sizeof header + header.rows * header.vocabulary * 4)
    fail("{}: is cut short: {} bytes", file, bytes_.bytes().size());
}

std::span<const float> LogitsReader::row(int64_t row) const {
  const std::byte* start = bytes_.bytes().data() + sizeof(Header) + row * vocabulary_ * 4;
  return {reinterpret_cast<const float*>(start), static_cast<size_t>(vocabulary_)};
}

}  // namespace braid::cli
