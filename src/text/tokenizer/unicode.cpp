// SPDX-License-Identifier: Apache-2.0
#include "text/tokenizer/unicode.h"

#include <utf8proc.h>

#include <algorithm>
#include <vector>

#include "base/error.h"
#include "base/utf8.h"

namespace braid {
namespace {

utf8proc_category_t category(uint32_t code) { return utf8proc_category(static_cast<utf8proc_int32_t>(code)); }

bool between(utf8proc_category_t category, utf8proc_category_t first, utf8proc_category_t last) {
  return category >= first && category <= last;
}

int combining_class(utf8proc_int32_t code) { return utf8proc_get_property(code)->combining_class; }

// Below this code point no character changes or combines with its neighbours in the form.
uint32_t first_affected(NormalForm form) {
  switch (form) {
    case NormalForm::Nfc:
      return 0x300;
    case NormalForm::Nfd:
      return 0xC0;
    default:
      return 0xA0;
  }
}

// How much of the text from `at` lies below `limit`.
size_t unaffected_length(std::string_view text, size_t at, uint32_t limit) {
  size_t end = at;
  while (end < text.size()) {
    const Utf8Char c = decode_utf8(text, end);
    if (c.code >= limit) break;
    end += c.bytes;
  }
  return end - at;
}

}  // namespace

std::string normalized(std::string_view text, NormalForm form) {
  if (unaffected_length(text, 0, first_affected(form)) == text.size()) return std::string(text);
  const bool composes = form == NormalForm::Nfc || form == NormalForm::Nfkc;
  const bool compatible = form == NormalForm::Nfkc || form == NormalForm::Nfkd;
  const auto options = static_cast<utf8proc_option_t>(
      UTF8PROC_STABLE | (composes ? UTF8PROC_COMPOSE : UTF8PROC_DECOMPOSE) | (compatible ? UTF8PROC_COMPAT : 0));
  std::vector<utf8proc_int32_t> codes;
  codes.reserve(text.size());
  int boundary_state = 0;
  for (size_t at = 0; at < text.size();) {
    const Utf8Char c = decode_utf8(text, at);
    at += c.bytes;
    utf8proc_int32_t parts[32];  // the longest decomposition has 18 characters
    const auto count =
        utf8proc_decompose_char(static_cast<utf8proc_int32_t>(c.code), parts, 32, options, &boundary_state);
    CHECK(count >= 0 && count <= 32, "code={} count={}", c.code, count);
    codes.insert(codes.end(), parts, parts + count);
  }
  // Canonical order. utf8proc's own is quadratic in a run of marks.
  for (auto run = codes.begin(); run != codes.end();) {
    run = std::find_if(run, codes.end(), [](auto code) { return combining_class(code) != 0; });
    const auto end = std::find_if(run, codes.end(), [](auto code) { return combining_class(code) == 0; });
    std::stable_sort(run, end, [](auto a, auto b) { return combining_class(a) < combining_class(b); });
    run = end;
  }
  auto length = static_cast<utf8proc_ssize_t>(codes.size());
  if (composes) length = utf8proc_normalize_utf32(codes.data(), length, options);
  CHECK(length >= 0, "length={}", length);
  std::string out;
  out.reserve(text.size());
  for (utf8proc_ssize_t i = 0; i < length; ++i) append_utf8(out, static_cast<uint32_t>(codes[static_cast<size_t>(i)]));
  return out;
}

void append_lowercase(std::string& out, uint32_t code) {
  append_utf8(out, static_cast<uint32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(code))));
  if (code == 0x130) append_utf8(out, 0x307);  // the one character whose lower case is two
}

bool is_mark(uint32_t code) { return between(category(code), UTF8PROC_CATEGORY_MN, UTF8PROC_CATEGORY_ME); }

bool is_number(uint32_t code) { return between(category(code), UTF8PROC_CATEGORY_ND, UTF8PROC_CATEGORY_NO); }

bool is_punctuation(uint32_t code) {
  if (code < 0x80)
    return code > ' ' && code < 0x7F && !is_number(code) &&
           !between(category(code), UTF8PROC_CATEGORY_LU, UTF8PROC_CATEGORY_LO);
  return between(category(code), UTF8PROC_CATEGORY_PC, UTF8PROC_CATEGORY_PO);
}

bool is_space(uint32_t code) {
  return (code >= 0x09 && code <= 0x0D) || code == 0x85 ||
         between(category(code), UTF8PROC_CATEGORY_ZS, UTF8PROC_CATEGORY_ZP);
}

bool is_word(uint32_t code) {
  const utf8proc_category_t kind = category(code);
  const bool other_alphabetic = (code >= 0x24B6 && code <= 0x24E9) || (code >= 0x1F130 && code <= 0x1F149) ||
                                (code >= 0x1F150 && code <= 0x1F169) || (code >= 0x1F170 && code <= 0x1F189);
  return between(kind, UTF8PROC_CATEGORY_LU, UTF8PROC_CATEGORY_LO) || is_mark(code) || kind == UTF8PROC_CATEGORY_ND ||
         kind == UTF8PROC_CATEGORY_NL || kind == UTF8PROC_CATEGORY_PC || code == 0x200C || code == 0x200D ||
         other_alphabetic;
}

}  // namespace braid
