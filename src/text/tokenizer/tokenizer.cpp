// SPDX-License-Identifier: Apache-2.0
#include "text/tokenizer/tokenizer.h"

#include <algorithm>
#include <mutex>
#include <utility>

#include "base/error.h"
#include "base/log.h"
#include "base/utf8.h"
#include "text/tokenizer/added_tokens.h"
#include "text/tokenizer/byte_alphabet.h"
#include "text/tokenizer/byte_pair.h"
#include "text/tokenizer/normalizer.h"
#include "text/tokenizer/post_processor.h"
#include "text/tokenizer/pre_tokenizer.h"
#include "text/tokenizer/token_decoder.h"
#include "text/tokenizer/tokenizer_file.h"

namespace braid {
namespace {

// What one call of encode() works with.
struct EncodeSpace {
  PreTokenizerSpace pre_tokenizer;
  BytePairSpace byte_pair;
  Pieces pieces;
};

// Spaces that no call uses at the moment. As many exist as calls ran at the same time.
class SpacePool {
 public:
  std::unique_ptr<EncodeSpace> take() {
    {
      const std::lock_guard lock(mutex_);
      if (!free_.empty()) {
        auto space = std::move(free_.back());
        free_.pop_back();
        return space;
      }
    }
    return std::make_unique<EncodeSpace>();
  }
  void give(std::unique_ptr<EncodeSpace> space) {
    const std::lock_guard lock(mutex_);
    free_.push_back(std::move(space));
  }

 private:
  std::mutex mutex_;
  std::vector<std::unique_ptr<EncodeSpace>> free_;
};

// A text as bytes of all tokens, cut by id.
struct PieceTable {
  std::string bytes;
  std::vector<size_t> ends;

  std::string_view at(int32_t id) const {
    const size_t index = static_cast<size_t>(id), begin = index == 0 ? 0 : ends[index - 1];
    return std::string_view(bytes).substr(begin, ends[index] - begin);
  }
};

JsonPlace member_or_null(const Json& value, const std::string& key) {
  static const Json null;
  const auto found = value.find(key);
  return {found == value.end() ? null : *found, key};
}

// The bytes, among those that UTF-8 is made of, that a text loses since they have no token.
int64_t lost_bytes(const BytePairModel& model) {
  int64_t lost = 0;
  for (int byte = 0; byte < 0xF5; ++byte) {
    if (byte == 0xC0 || byte == 0xC1) continue;  // never in UTF-8, as all from 0xF5 on
    std::string character;
    append_byte_characters(character, std::string(1, static_cast<char>(byte)));
    lost += model.loses(character) ? 1 : 0;
  }
  return lost;
}

}  // namespace

struct Tokenizer::Parts {
  TokenizerConfig config;
  Normalizer normalizer;
  PreTokenizer pre_tokenizer;
  BytePairModel model;
  AddedTokens added;
  PostProcessor post_processor;
  TokenDecoder decoder;
  int32_t size = 0;
  PieceTable pieces;
  mutable SpacePool spaces;

  Parts(TokenizerFile file, TokenizerConfig settings)
      : config(std::move(settings)),
        normalizer(member_or_null(file.rest, "normalizer")),
        pre_tokenizer(member_or_null(file.rest, "pre_tokenizer")),
        model(member_or_null(file.rest, "model"), file),
        post_processor(member_or_null(file.rest, "post_processor")),
        decoder(member_or_null(file.rest, "decoder")) {
    const JsonPlace tokens = member_or_null(file.rest, "added_tokens");
    if (!tokens.is_null()) added = AddedTokens(tokens, model.vocabulary(), normalizer);
    if (const int64_t lost = pre_tokenizer.writes_bytes() ? lost_bytes(model) : 0; lost > 0)
      log::warn("tokenizer bytes_without_token={}: text loses them", lost);
    size = model.vocabulary().size();
    if (const auto ids = added.ids(); !ids.empty()) size = std::max(size, ids.back() + 1);
    for (int32_t id = 0; id < size; ++id) {
      if (has(id)) pieces.bytes += decoder.bytes_of(token(id));
      pieces.ends.push_back(pieces.bytes.size());
    }
  }

  bool has(int32_t id) const { return model.vocabulary().has(id) || added.find(id) != nullptr; }

  std::string_view token(int32_t id) const {
    const AddedToken* token = added.find(id);
    return token != nullptr ? std::string_view(token->content) : model.vocabulary().token(id);
  }

  void encode_text(std::string text, bool at_start, EncodeSpace& space, std::vector<int32_t>& ids) const {
    if (text.empty()) return;
    space.pieces.text = std::move(text);
    space.pieces.spans.assign(1, {0, space.pieces.text.size()});
    space.pieces.at_start = at_start;
    pre_tokenizer.apply(space.pieces, space.pre_tokenizer);
    const std::string_view pieces_text = space.pieces.text;
    for (const Span& span : space.pieces.spans) {
      model.encode(pieces_text.substr(span.begin, span.end - span.begin), space.byte_pair, ids);
    }
  }

  std::vector<int32_t> encode(std::string_view text, bool special, EncodeSpace& space) const {
    std::vector<int32_t> ids;
    for (const Section& section : added.split(text, false, special)) {
      if (section.id >= 0) {
        ids.push_back(section.id);
        continue;
      }
      const std::string normal =
          normalizer.apply(std::string(text.substr(section.span.begin, section.span.end - section.span.begin)),
                           space.pre_tokenizer.match);
      for (const Section& part : added.split(normal, true, special)) {
        if (part.id >= 0) {
          ids.push_back(part.id);
        } else {
          encode_text(normal.substr(part.span.begin, part.span.end - part.span.begin),
                      section.span.begin == 0 && part.span.begin == 0, space, ids);
        }
      }
    }
    return ids;
  }
};

Tokenizer::Tokenizer(std::unique_ptr<const Parts> parts) : parts_(std::move(parts)) {}
Tokenizer::~Tokenizer() = default;
Tokenizer::Tokenizer(Tokenizer&&) noexcept = default;
Tokenizer& Tokenizer::operator=(Tokenizer&&) noexcept = default;

Tokenizer Tokenizer::load(const std::filesystem::path& folder) {
  const std::filesystem::path file = folder / "tokenizer.json";
  const std::string text = read_file(file);
  TokenizerConfig config = read_tokenizer_config(folder);
  return with_context(file.string(), [&] { return from_json(text, std::move(config)); });
}

Tokenizer Tokenizer::from_json(std::string_view tokenizer_json, TokenizerConfig config) {
  return from_file(parse_tokenizer_file(tokenizer_json), std::move(config));
}

Tokenizer Tokenizer::from_file(TokenizerFile file, TokenizerConfig config) {
  return Tokenizer(std::make_unique<const Parts>(std::move(file), std::move(config)));
}

std::vector<int32_t> Tokenizer::encode(std::string_view text, EncodeOptions options) const {
  std::string repaired;
  if (!is_utf8(text)) text = repaired = to_valid_utf8(text);
  auto space = parts_->spaces.take();
  std::vector<int32_t> ids = parts_->encode(text, options.parse_special, *space);
  parts_->spaces.give(std::move(space));
  return options.add_special_tokens ? parts_->post_processor.apply(std::move(ids)) : ids;
}

std::string Tokenizer::decode(std::span<const int32_t> ids, bool skip_special) const {
  StreamDecoder stream(*this, skip_special);
  std::string out;
  for (const int32_t id : ids) stream.push(id, out);
  return out + stream.finish();
}

int32_t Tokenizer::size() const { return parts_->size; }

bool Tokenizer::has(int32_t id) const { return parts_->has(id); }

std::string_view Tokenizer::piece(int32_t id) const {
  return id >= 0 && id < size() ? parts_->pieces.at(id) : std::string_view();
}

std::string_view Tokenizer::token(int32_t id) const { return has(id) ? parts_->token(id) : std::string_view(); }

std::optional<int32_t> Tokenizer::token_to_id(std::string_view token) const {
  int32_t id = parts_->added.find(token);
  if (id < 0) id = parts_->model.vocabulary().find(token);
  return id < 0 ? std::nullopt : std::optional(id);
}

bool Tokenizer::is_special(int32_t id) const {
  const AddedToken* token = parts_->added.find(id);
  return token != nullptr && token->special;
}

std::vector<int32_t> Tokenizer::special_ids() const {
  std::vector<int32_t> ids = parts_->added.ids();
  std::erase_if(ids, [&](int32_t id) { return !is_special(id); });
  return ids;
}

namespace {

std::optional<int32_t> id_of(const Tokenizer& tokenizer, const std::optional<std::string>& token) {
  return token ? tokenizer.token_to_id(*token) : std::nullopt;
}

}  // namespace

std::optional<int32_t> Tokenizer::bos() const { return id_of(*this, config().bos_token); }
std::optional<int32_t> Tokenizer::eos() const { return id_of(*this, config().eos_token); }
std::optional<int32_t> Tokenizer::pad() const { return id_of(*this, config().pad_token); }

const TokenizerConfig& Tokenizer::config() const { return parts_->config; }

const std::string* Tokenizer::chat_template(const std::string& name) const {
  const auto found = config().chat_templates.find(name);
  return found == config().chat_templates.end() ? nullptr : &found->second;
}

struct StreamDecoder::Progress {
  const Tokenizer::Parts* parts;
  bool skip_special;
  TokenDecoder::State state;
};

StreamDecoder::StreamDecoder(const Tokenizer& tokenizer, bool skip_special)
    : progress_(new Progress{tokenizer.parts_.get(), skip_special, tokenizer.parts_->decoder.start()}) {}
StreamDecoder::~StreamDecoder() = default;
StreamDecoder::StreamDecoder(StreamDecoder&&) noexcept = default;
StreamDecoder& StreamDecoder::operator=(StreamDecoder&&) noexcept = default;

void StreamDecoder::push(int32_t id, std::string& out) {
  const Tokenizer::Parts& parts = *progress_->parts;
  if (!parts.has(id)) return;
  const AddedToken* added = parts.added.find(id);
  if (progress_->skip_special && added != nullptr && added->special) return;
  parts.decoder.push(parts.token(id), progress_->state, out);
}

std::string StreamDecoder::push(int32_t id) {
  std::string out;
  push(id, out);
  return out;
}

std::string StreamDecoder::finish() {
  std::string out;
  const TokenDecoder& decoder = progress_->parts->decoder;
  decoder.finish(progress_->state, out);
  progress_->state = decoder.start();
  return out;
}

}  // namespace braid
