// TokenizerConfig: what tokenizer_config.json and the chat template files say beside the tokenizer itself.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>

#include "base/json.h"

namespace braid {

struct TokenizerConfig {
  std::optional<std::string> bos_token, eos_token, pad_token, unk_token;
  std::optional<bool> add_bos_token, add_eos_token;
  std::map<std::string, std::string> chat_templates;  // by name; the one without a name is "default"
};

// Reads the value of a tokenizer_config.json. A token is a string or an object with "content"; "chat_template" is a
// string or a list of {"name", "template"}. Wrong types are Input errors that name the key; unknown keys are not looked
// at.
TokenizerConfig read_tokenizer_config(const Json& config);

// Reads tokenizer_config.json, chat_template.jinja and additional_chat_templates/*.jinja of a folder, all of which may
// be absent. Template files win over the configuration.
TokenizerConfig read_tokenizer_config(const std::filesystem::path& folder);

}  // namespace braid
