// SPDX-License-Identifier: Apache-2.0
#include "cli/batch_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "base/error.h"
#include "base/log.h"

namespace braid::cli {
namespace {

constexpr std::array<std::string_view, 2> kUrls{"/v1/chat/completions", "/v1/completions"};

// Calls `take(number, line)` for each line that is not blank.
void for_lines(std::string_view text, auto&& take) {
  for (int64_t number = 1; !text.empty(); ++number) {
    const size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (line.find_first_not_of(" \t\r") != std::string_view::npos) take(number, line);
  }
}

std::string text_of(const Json& object, const char* name) {
  const auto found = object.find(name);
  return found != object.end() && found->is_string() ? found->get<std::string>() : "";
}

bool failed(const Json& response) {
  if (!response.is_object()) return true;
  const auto status = response.find("status_code");
  return status == response.end() || !status->is_number_integer() || status->get<int64_t>() >= 400;
}

// Fills in what the line asks; says what is wrong with it, or nothing.
std::string read_line(std::string_view text, const std::string& model, BatchLine& line, std::set<std::string>& known) {
  Json object;
  try {
    object = parse_json(text, "the line");
  } catch (const Error& error) {
    return error.message();
  }
  if (!object.is_object()) return "expected a JSON object";
  const std::string id = text_of(object, "custom_id");
  if (id.empty()) return "'custom_id' is not a text with something in it";
  if (!known.insert(id).second) return fmt::format("custom_id '{}' came before", id);
  line.custom_id = id;
  line.url = text_of(object, "url");
  if (text_of(object, "method") != "POST") return "'method' is not POST";
  if (std::ranges::find(kUrls, line.url) == kUrls.end())
    return fmt::format("url '{}': a batch asks {} and {}", line.url, kUrls[0], kUrls[1]);
  auto body = object.find("body");
  if (body == object.end() || !body->is_object()) return "'body' is not an object";
  if (const auto stream = body->find("stream"); stream != body->end() && *stream == true)
    return "body.stream: nothing is streamed in a batch";
  if (Json& asked = (*body)["model"]; asked.is_null()) asked = model;
  line.body = body->dump(-1, ' ', false, Json::error_handler_t::replace);
  return "";
}

}  // namespace

std::vector<BatchLine> read_batch(std::string_view text, const std::string& model) {
  std::vector<BatchLine> lines;
  std::set<std::string> known;
  for_lines(text, [&](int64_t number, std::string_view line) {
    BatchLine& out = lines.emplace_back(BatchLine{.number = number});
    out.fault = read_line(line, model, out, known);
  });
  return lines;
}

BatchOutput::BatchOutput(const std::filesystem::path& file) : file_(file) {
  descriptor_ = ::open(file.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  if (descriptor_ < 0) fail("{}: {}", file.string(), std::strerror(errno));
  try {
    if (::flock(descriptor_, LOCK_EX | LOCK_NB) != 0)
      fail("{}: {}", file.string(), errno == EWOULDBLOCK ? "another process writes it" : std::strerror(errno));
    read();
  } catch (...) {
    ::close(descriptor_);
    throw;
  }
}

BatchOutput::~BatchOutput() { ::close(descriptor_); }

void BatchOutput::read() {
  const std::string text = read_file(file_);
  const size_t whole = text.rfind('\n') == std::string::npos ? 0 : text.rfind('\n') + 1;
  for_lines(std::string_view(text).substr(0, whole), [&](int64_t number, std::string_view line) {
    const std::string name = fmt::format("{}:{}", file_.string(), number);
    const Json answer = parse_json(line, name);
    if (!answer.is_object() || !answer.contains("response") || !answer.contains("error"))
      fail("{}: not an answer of a batch; --out takes a new file, or one that braid began", name);
    failed_before_ += failed(answer["response"]) ? 1 : 0;
    if (const std::string id = text_of(answer, "custom_id"); !id.empty())
      ids_.insert(id);
    else if (answer["error"].is_object())
      lines_.insert(answer["error"].value("line", int64_t{0}));
  });
  if (whole == text.size()) return;
  log::warn("{}: the last line was not written whole, and is asked again", file_.string());
  if (::ftruncate(descriptor_, static_cast<off_t>(whole)) != 0) fail("{}: {}", file_.string(), std::strerror(errno));
}

bool BatchOutput::has(const BatchLine& line) const {
  return line.custom_id.empty() ? lines_.contains(line.number) : ids_.contains(line.custom_id);
}

void BatchOutput::append(const BatchLine& line, Json answer) {
  const std::string text = answer.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
  for (std::string_view left = text; !left.empty();) {
    const ssize_t written = ::write(descriptor_, left.data(), left.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) fail(ErrorKind::Resource, "{}: {}", file_.string(), std::strerror(errno));
    left.remove_prefix(static_cast<size_t>(written));
  }
  if (line.custom_id.empty())
    lines_.insert(line.number);
  else
    ids_.insert(line.custom_id);
}

void BatchOutput::finish() {
  // What is no file on a disk has nothing to wait for.
  if (::fsync(descriptor_) != 0 && errno != EINVAL)
    fail(ErrorKind::Resource, "{}: {}", file_.string(), std::strerror(errno));
}

}  // namespace braid::cli
