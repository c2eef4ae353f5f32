// SPDX-License-Identifier: Apache-2.0
#include "text/tokenizer/pattern.h"

#include <algorithm>

#include "base/error.h"
#include "base/utf8.h"
#include "text/tokenizer/pattern_syntax.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

namespace braid {
namespace {

// Backtracking may need memory in proportion to the text; a match that needs more than this is given up with an error.
constexpr size_t kFirstStackBytes = size_t{64} << 10;
constexpr size_t kMaxStackBytes = size_t{256} << 20;
constexpr uint32_t kMaxHeapKiB = 256 << 10;
// Steps of backtracking for one match: as many as Oniguruma allows by default, and for walking over the text a few
// times.
constexpr uint64_t kMaxSteps = 10'000'000, kStepsPerByte = 4;

std::string message_of(int code) {
  PCRE2_UCHAR text[256] = {};
  pcre2_get_error_message(code, text, sizeof(text));
  return reinterpret_cast<const char*>(text);
}

struct Free {
  void operator()(pcre2_code* code) const { pcre2_code_free(code); }
  void operator()(pcre2_compile_context* context) const { pcre2_compile_context_free(context); }
  void operator()(pcre2_match_context* context) const { pcre2_match_context_free(context); }
  void operator()(pcre2_match_data* data) const { pcre2_match_data_free(data); }
  void operator()(pcre2_jit_stack* stack) const { pcre2_jit_stack_free(stack); }
};

template <typename T>
std::unique_ptr<T, Free> owned(T* made) {
  if (made == nullptr) fail(ErrorKind::Resource, "out of memory for matching patterns");
  return std::unique_ptr<T, Free>(made);
}

}  // namespace

struct MatchSpace::Memory {
  std::unique_ptr<pcre2_match_data, Free> data = owned(pcre2_match_data_create(1, nullptr));
  std::unique_ptr<pcre2_match_context, Free> context = owned(pcre2_match_context_create(nullptr));
  std::unique_ptr<pcre2_jit_stack, Free> stack =
      owned(pcre2_jit_stack_create(kFirstStackBytes, kMaxStackBytes, nullptr));

  Memory() {
    pcre2_set_heap_limit(context.get(), kMaxHeapKiB);
    pcre2_jit_stack_assign(context.get(), nullptr, stack.get());
  }
};

MatchSpace::MatchSpace() : memory_(std::make_unique<Memory>()) {}
MatchSpace::~MatchSpace() = default;
MatchSpace::MatchSpace(MatchSpace&&) noexcept = default;
MatchSpace& MatchSpace::operator=(MatchSpace&&) noexcept = default;

struct Pattern::Code {
  std::unique_ptr<pcre2_code, Free> code;
  bool compiled_to_machine_code = false;
  std::string shown;  // as the file writes it, for messages
};

Pattern::Pattern(std::unique_ptr<const Code> code) : code_(std::move(code)) {}
Pattern::~Pattern() = default;
Pattern::Pattern(Pattern&&) noexcept = default;
Pattern& Pattern::operator=(Pattern&&) noexcept = default;

Pattern Pattern::compile(const std::string& expression, std::string_view shown, unsigned options) {
  const auto context = owned(pcre2_compile_context_create(nullptr));
  pcre2_set_newline(context.get(), PCRE2_NEWLINE_LF);
  int error = 0;
  size_t at = 0;
  pcre2_code* code = pcre2_compile(reinterpret_cast<PCRE2_SPTR>(expression.data()), expression.size(),
                                   options | PCRE2_UTF, &error, &at, context.get());
  if (code == nullptr) fail("pattern '{}': {}", shown, message_of(error));
  auto made = std::make_unique<Code>();
  made->code = owned(code);
  made->compiled_to_machine_code = pcre2_jit_compile(code, PCRE2_JIT_COMPLETE) == 0;
  made->shown = shown;
  return Pattern(std::move(made));
}

Pattern Pattern::regex(std::string_view expression) {
  return compile(pcre2_pattern(expression), expression, PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C);
}

Pattern Pattern::literal(std::string_view text) {
  return compile(std::string(text), text, text.empty() ? 0 : PCRE2_LITERAL);
}

void Pattern::cover(std::string_view text, MatchSpace& space, std::vector<Stretch>& cover) const {
  cover.clear();
  if (text.empty()) return cover.push_back({});
  MatchSpace::Memory& memory = *space.memory_;
  const uint64_t steps = kMaxSteps + kStepsPerByte * text.size();
  pcre2_set_match_limit(memory.context.get(), static_cast<uint32_t>(std::min<uint64_t>(steps, UINT32_MAX)));
  const auto* subject = reinterpret_cast<PCRE2_SPTR>(text.data());
  const size_t* found = pcre2_get_ovector_pointer(memory.data.get());
  const auto match = code_->compiled_to_machine_code ? pcre2_jit_match : pcre2_match;
  size_t from = 0, covered = 0;
  bool any = false;
  while (from <= text.size()) {
    const int count = match(code_->code.get(), subject, text.size(), from, PCRE2_NO_UTF_CHECK, memory.data.get(),
                            memory.context.get());
    if (count == PCRE2_ERROR_NOMATCH) break;
    if (count < 0) fail("pattern '{}' on {} bytes of text: {}", code_->shown, text.size(), message_of(count));
    const Span span{found[0], found[1]};
    if (span.begin > span.end || span.begin < from) fail("pattern '{}' matches backwards", code_->shown);
    if (any && span.empty() && span.end == covered) {
      from += from < text.size() ? decode_utf8(text, from).bytes : 1;
      continue;
    }
    if (span.begin > covered) cover.push_back({.span = {covered, span.begin}});
    cover.push_back({.span = span, .matched = true});
    from = covered = span.end;
    any = true;
  }
  if (covered < text.size()) cover.push_back({.span = {covered, text.size()}});
}

}  // namespace braid
