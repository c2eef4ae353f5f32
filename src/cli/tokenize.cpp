// braid tokenize: ids and pieces of a text.
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <memory>
#include <optional>

#include "api/model.h"
#include "base/error.h"
#include "cli/command.h"
#include "cli/input.h"
#include "cli/options.h"
#include "text/tokenizer/tokenizer.h"
#include "weights/model_folder.h"

namespace braid::cli {
namespace {

struct Options {
  std::string model, file;
  std::optional<std::string> text;
  bool plain = false, json = false;
};

void tokenize(const Options& options) {
  if (!options.text && options.file.empty()) fail(ErrorKind::Usage, "TEXT or --file is required");
  const Tokenizer tokenizer = Tokenizer::load(find_model(options.model));
  const bool piped = options.file.empty() && *options.text == "-";
  const std::string file = piped ? "-" : options.file;
  const std::string text = file.empty() ? *options.text : read_text(file);
  check_utf8(text, file.empty() ? "TEXT" : name_of_input(file));
  const std::vector<int32_t> ids =
      tokenizer.encode(text, {.add_special_tokens = !options.plain, .parse_special = !options.plain});
  if (options.json) {
    fmt::print("{}\n", Json(ids).dump());
    return;
  }
  for (const int32_t id : ids)
    fmt::print("{:>8}  {}\n", id,
               Json(std::string(tokenizer.piece(id))).dump(-1, ' ', false, Json::error_handler_t::replace));
  fmt::print("{} tokens\n", ids.size());
}

}  // namespace

void add_tokenize(CLI::App& app) {
  auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand("tokenize", "ids and pieces of a text");
  command->add_option("MODEL", options->model, "folder with a tokenizer.json, or an id in the Hugging Face cache")
      ->required();
  auto* text =
      command->add_option("TEXT", options->text, "the text; -: from standard input; after -- if it begins with '-'");
  command->add_option("--file", options->file, "read the text from a file; -: from standard input")->excludes(text);
  command->add_flag("--plain", options->plain, "add no special tokens, and take special tokens in the text as text");
  add_json_option(*command, options->json);
  command->callback([options] { tokenize(*options); });
}

}  // namespace braid::cli
