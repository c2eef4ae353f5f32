// SPDX-License-Identifier: Apache-2.0
#include "text/tokenizer/tokenizer_config.h"

#include "base/error.h"
#include "base/files.h"
#include "text/tokenizer/tokenizer_file.h"

namespace braid {
namespace {

std::optional<std::string> read_token(const JsonPlace& config, const std::string& key) {
  if (!config.has(key)) return std::nullopt;
  const JsonPlace token = config.at(key);
  return token.is_object() ? token.at("content").text() : token.text();
}

std::optional<bool> read_flag(const JsonPlace& config, const std::string& key) {
  if (!config.has(key)) return std::nullopt;
  return config.at(key).boolean();
}

}  // namespace

TokenizerConfig read_tokenizer_config(const Json& value) {
  const JsonPlace config(value, "");
  if (!config.is_object()) fail("expected a JSON object");
  TokenizerConfig result{.bos_token = read_token(config, "bos_token"),
                         .eos_token = read_token(config, "eos_token"),
                         .pad_token = read_token(config, "pad_token"),
                         .unk_token = read_token(config, "unk_token"),
                         .add_bos_token = read_flag(config, "add_bos_token"),
                         .add_eos_token = read_flag(config, "add_eos_token")};
  if (!config.has("chat_template")) return result;
  const JsonPlace chat = config.at("chat_template");
  if (!chat.is_array()) {
    result.chat_templates["default"] = chat.text();
    return result;
  }
  for (const JsonPlace& named : chat.elements()) {
    result.chat_templates[named.at("name").text()] = named.at("template").text();
  }
  return result;
}

TokenizerConfig read_tokenizer_config(const std::filesystem::path& folder) {
  TokenizerConfig config;
  const std::filesystem::path file = folder / "tokenizer_config.json";
  if (is_there(file)) {
    const Json value = read_json(file);
    config = with_context(file.string(), [&] { return read_tokenizer_config(value); });
  }
  const std::filesystem::path single = folder / "chat_template.jinja", several = folder / "additional_chat_templates";
  if (is_there(single)) config.chat_templates["default"] = read_file(single);
  if (is_there(several))
    for (const std::filesystem::path& path : list_folder(several))
      if (path.extension() == ".jinja") config.chat_templates[path.stem().string()] = read_file(path);
  return config;
}

}  // namespace braid
