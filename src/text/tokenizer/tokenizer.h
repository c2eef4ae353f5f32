// Tokenizer: text to token ids and back, as a Hugging Face tokenizer.json describes it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "text/tokenizer/tokenizer_config.h"

namespace braid {

struct TokenizerFile;

struct EncodeOptions {
  // Puts the special tokens of the file's post-processor around the text (a beginning-of-text token, usually). Rendered
  // chat templates write these themselves, so they are encoded without.
  bool add_special_tokens = true;
  // Recognises special tokens written in the text. Without, they are text like any other; added tokens that are not
  // special are recognised all the same.
  bool parse_special = true;
};

// Gives the ids and texts that the Hugging Face library of the same file format gives. Byte-pair models only; a file
// with a model, normaliser, pre-tokenizer, post-processor or decoder that is not known is refused with its place.
//
// Immutable after loading. Any number of threads may use one Tokenizer at the same time; it outlives its
// StreamDecoders.
class Tokenizer {
 public:
  // Loads tokenizer.json of a folder with what is there of tokenizer_config.json and chat template files.
  static Tokenizer load(const std::filesystem::path& folder);
  // Loads the text of a tokenizer.json.
  static Tokenizer from_json(std::string_view tokenizer_json, TokenizerConfig config = {});
  // Makes one of what such a file holds (tokenizer_file.h), for vocabularies that come from elsewhere.
  static Tokenizer from_file(TokenizerFile file, TokenizerConfig config = {});

  ~Tokenizer();
  Tokenizer(Tokenizer&&) noexcept;
  Tokenizer& operator=(Tokenizer&&) noexcept;

  // The ids of `text`. What is not valid UTF-8 in it counts as U+FFFD, one for each maximal ill-formed part. Linear in
  // the text but for a factor log n on pieces that no pattern cuts. A pattern that exceeds its limits is an Input
  // error.
  std::vector<int32_t> encode(std::string_view text, EncodeOptions options = {}) const;

  // The text of `ids`, valid UTF-8: bytes that make no character become U+FFFD. Ids without a token are passed over,
  // and special ones with `skip_special`.
  std::string decode(std::span<const int32_t> ids, bool skip_special = false) const;

  // The highest id + 1. Models may have more rows than that, and ids below it may be without a token.
  int32_t size() const;
  bool has(int32_t id) const;
  // The bytes that a token puts into the middle of a text; they need not be whole characters. Empty without a token.
  std::string_view piece(int32_t id) const;
  // The string of a token as the file writes it ("Ġthe"). Empty without a token.
  std::string_view token(int32_t id) const;
  std::optional<int32_t> token_to_id(std::string_view token) const;

  bool is_special(int32_t id) const;
  std::vector<int32_t> special_ids() const;  // ascending

  // From the configuration; nothing where it names none, or one that the tokenizer does not have.
  std::optional<int32_t> bos() const;
  std::optional<int32_t> eos() const;
  std::optional<int32_t> pad() const;

  const TokenizerConfig& config() const;
  // The text of the chat template with this name; null if there is none.
  const std::string* chat_template(const std::string& name = "default") const;

 private:
  friend class StreamDecoder;
  struct Parts;
  explicit Tokenizer(std::unique_ptr<const Parts> parts);
  std::unique_ptr<const Parts> parts_;
};

// Decodes ids as they come. All that push() and finish() return, put together, is what Tokenizer::decode() gives for
// the same ids. One thread at a time.
class StreamDecoder {
 public:
  explicit StreamDecoder(const Tokenizer& tokenizer, bool skip_special = false);
  ~StreamDecoder();
  StreamDecoder(StreamDecoder&&) noexcept;
  StreamDecoder& operator=(StreamDecoder&&) noexcept;

  // The text that `id` completes: whole characters, perhaps none.
  std::string push(int32_t id);
  // The rest; U+FFFD for a character that was not completed. The decoder is as new after it.
  std::string finish();

 private:
  friend class Tokenizer;
  struct Progress;
  void push(int32_t id, std::string& out);
  std::unique_ptr<Progress> progress_;
};

}  // namespace braid
