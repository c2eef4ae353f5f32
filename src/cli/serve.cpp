// braid serve: the HTTP server.
// SPDX-License-Identifier: Apache-2.0
#include "server/serve.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <sstream>

#include "base/error.h"
#include "base/files.h"
#include "base/log.h"
#include "cli/command.h"
#include "cli/options.h"

namespace braid::cli {
namespace {

struct Options {
  server::ServeOptions serve;
  std::vector<std::string> keys;
  std::string key_file, think;
  size_t body_mb = 32;
  std::optional<int64_t> cache_mb;
  int request_seconds = 30, drain_seconds = 30;
};

// Lines "name key"; a line with one word names the key by its number. Empty lines and those that begin with # are none.
std::vector<server::NamedKey> read_keys(const std::string& file) {
  std::vector<server::NamedKey> keys;
  std::istringstream lines(read_whole(file));
  int number = 0;
  for (std::string line; std::getline(lines, line);) {
    ++number;
    std::istringstream words(line);
    std::string first, second, third;
    words >> first >> second >> third;
    if (first.empty() || first[0] == '#') continue;
    if (!third.empty()) fail(ErrorKind::Usage, "{}:{}: expected a name and a key", file, number);
    keys.push_back(second.empty() ? server::NamedKey{fmt::format("key{}", keys.size() + 1), first}
                                  : server::NamedKey{first, second});
  }
  if (keys.empty()) fail(ErrorKind::Usage, "{}: holds no key", file);
  return keys;
}

void add_network_options(CLI::App& app, Options& options) {
  server::HttpOptions& http = options.serve.http;
  app.add_option("--host", http.host, "address to listen on")->capture_default_str();
  app.add_option("--port", http.port, "port to listen on; 0: any that is free")
      ->check(CLI::Range(0, 65535))
      ->capture_default_str();
  app.add_option("--served-model-name", options.serve.names,
                 "what requests call the model, may be given several times; else the folder's name")
      ->allow_extra_args(false);
  app.add_option("--api-key", options.keys, "key that requests must bring, may be given several times")
      ->allow_extra_args(false);
  app.add_option("--api-key-file", options.key_file, "file with a name and a key on each line");
  auto* certificate = app.add_option("--tls-cert", http.certificate_file, "PEM file with the certificate chain: HTTPS");
  auto* key = app.add_option("--tls-key", http.private_key, "PEM file with the certificate's private key");
  certificate->needs(key);
  key->needs(certificate);
  app.add_option("--cors-origin", options.serve.cors_origin, "origin whose web pages may ask; *: all");
  app.add_option("--max-body-mb", options.body_mb, "longest request")
      ->check(CLI::Range(1, 4096))
      ->capture_default_str();
  app.add_option("--request-timeout", options.request_seconds, "seconds for a request to arrive")
      ->check(CLI::Range(1, 86400))
      ->capture_default_str();
  app.add_option("--drain-timeout", options.drain_seconds, "seconds for running answers after SIGTERM")
      ->check(CLI::Range(0, 86400))
      ->capture_default_str();
}

void add_load_options(CLI::App& app, Options& options) {
  server::ServeOptions& serve = options.serve;
  app.add_option("--max-parallel", serve.parallel, "sequences computed at once")
      ->check(CLI::Range(1, 4096))
      ->capture_default_str();
  app.add_option("--max-queue", serve.queue, "requests that may wait beside them; more get 429")
      ->check(CLI::Range(0, 1 << 20))
      ->capture_default_str();
  app.add_option("--step-tokens", serve.step_tokens, "tokens of prompts in a step; else by device: 512, GPUs 4096")
      ->check(CLI::Range(64, 1 << 16));
  app.add_option("--cache-mb", options.cache_mb,
                 "memory for prompts that were read before; 0: none; else a share of it")
      ->check(CLI::Range(int64_t{0}, int64_t{1} << 40));
  app.add_option("--cache-dir", serve.cache_folder, "folder where the prefix cache survives a restart");
  app.add_flag("--deterministic", serve.open.device.deterministic, "the same tokens whatever else runs");
  app.add_option("--memory-share", serve.memory_share, "share of the free memory for the state of sequences")
      ->check(CLI::Range(0.01, 1.0))
      ->capture_default_str();
}

void add_answer_options(CLI::App& app, Options& options) {
  app.add_option("--chat-template", options.serve.open.chat_template,
                 "file with a Jinja chat template to use instead of the model's");
  app.add_option("--think", options.think, "on or off, where the request does not say")
      ->check(CLI::IsMember({"on", "off"}));
  app.add_option("--reasoning", options.serve.reasoning, "how thoughts are marked: auto, none or think")
      ->check(CLI::IsMember({"auto", "none", "think"}))
      ->capture_default_str();
  app.add_option("--tool-calls", options.serve.tool_form, "how calls are written: auto, none, json or xml")
      ->check(CLI::IsMember({"auto", "none", "json", "xml"}))
      ->capture_default_str();
  const char* where = "Where the request does not say";
  add_sampling_overrides(app, options.serve.sampling, where);
  app.add_option("--max-tokens", options.serve.max_tokens, "longest answer; else up to the context")
      ->check(CLI::Range(int64_t{1}, int64_t{INT32_MAX}))
      ->group(where);
}

void run(Options& options, bool quiet) {
  server::ServeOptions& serve = options.serve;
  if (!options.key_file.empty()) serve.keys = read_keys(options.key_file);
  for (const std::string& key : options.keys) {
    serve.keys.push_back({fmt::format("key{}", serve.keys.size() + 1), key});
  }
  if (!options.think.empty()) serve.think = options.think == "on";
  if (options.cache_mb) serve.cache_bytes = std::min(*options.cache_mb, int64_t{1} << 30) << 20;
  serve.http.limits.body_bytes = options.body_mb << 20;
  serve.http.limits.request = std::chrono::seconds(options.request_seconds);
  serve.drain = std::chrono::seconds(options.drain_seconds);
  if (quiet) log::start("info");
  server::serve(serve);
}

}  // namespace

void add_serve(CLI::App& app) {
  auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand("serve", "answer HTTP: the chat, completions, responses and messages APIs");
  add_model_options(*command, options->serve.open, "longest context of a sequence");
  add_loading_options(*command, options->serve.open);
  add_network_options(*command, *options);
  add_load_options(*command, *options);
  add_answer_options(*command, *options);
  // A server says what it does unless it is told how much to say.
  command->callback([options, command] { run(*options, command->get_parent()->count("--log") == 0); });
}

}  // namespace braid::cli
