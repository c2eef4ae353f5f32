// SPDX-License-Identifier: Apache-2.0
#include "server/serve.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <filesystem>

#include "base/error.h"
#include "base/log.h"
#include "server/http/server.h"
#include "server/openai/error.h"
#include "server/routes.h"
#include "server/service.h"

namespace braid::server {
namespace {

double gigabytes(int64_t bytes) { return static_cast<double>(bytes) / 1e9; }

// One screen: what runs where, with how much memory, and where to ask.
void print_start(const Service& service, const HttpServer& http) {
  const ServeOptions& options = service.options;
  const EngineLoop::Load load = service.loop.load();
  const StateBytes state = state_bytes(service.model.spec);
  std::string names;
  for (const std::string& name : options.names) names += (names.empty() ? "" : ", ") + name;
  const bool tls = !options.http.certificate_file.empty();
  fmt::print(
      stderr,
      "model     {} ({})\n"
      "device    {}\n"
      "context   {} tokens, {} sequences at once, {} more may wait\n"
      "state     up to {:.2f} GB: {} pages of {} tokens, {} slots of {:.3f} MB\n"
      "cache     up to {:.2f} GB of conversations, in pages and slots that are free and in host memory\n"
      "keys      {}\n"
      "address   {}://{}\n",
      names, service.model.spec.family, service.model.executor->name(), service.model.context, options.parallel,
      options.queue, gigabytes(load.pages * StatePool::kPageTokens * state.per_token + load.slots * state.per_sequence),
      load.pages, StatePool::kPageTokens, load.slots, static_cast<double>(state.per_sequence) / 1e6,
      gigabytes(load.engine.cache.budget),
      options.keys.empty() ? "none: whoever reaches the address may ask" : fmt::format("{}", options.keys.size()),
      tls ? "https" : "http", address(options.http.host, http.port()));
  std::fflush(stderr);
}

// A place where the cache can be kept: made where it is not there.
void check_cache_folder(const std::filesystem::path& folder) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (!error && ::access(folder.c_str(), W_OK | X_OK) != 0) error.assign(errno, std::generic_category());
  if (error) fail("--cache-dir {}: cannot be written: {}", folder.string(), error.message());
}

void toggle_debug() {
  const bool debug = spdlog::get_level() == spdlog::level::debug;
  spdlog::set_level(debug ? spdlog::level::info : spdlog::level::debug);
  log::info("log level={}", debug ? "info" : "debug");
}

}  // namespace

void serve(const ServeOptions& options) {
  std::signal(SIGXFSZ, SIG_IGN);  // a file that may not grow is like a full disk: writing says so
  // What can be refused at once is not found out behind the loading of a model.
  HttpOptions http_options = options.http;
  http_options.refusal = [](int status, const std::string& message) {
    return openai_error(ApiError(fault_of(status), message));
  };
  HttpServer bound(std::move(http_options));
  if (!options.cache_folder.empty()) check_cache_folder(options.cache_folder);
  Service service(options);
  Router router(service);
  add_openai_routes(router, service);
  add_anthropic_routes(router, service);
  add_responses_routes(router, service);
  add_token_routes(router, service);
  add_operation_routes(router, service);
  HttpServer http = std::move(bound);  // ends before what its handler uses
  http.listen([&router](std::shared_ptr<Exchange> exchange) { router.handle(exchange); });
  const auto leave = [&](int) {
    if (service.draining.exchange(true)) return http.stop();
    log::info("leaving unfinished={}", service.loop.load().unfinished);
    http.after(options.drain, [&service] { service.loop.cancel_all(); });
    http.drain();
  };
  http.on_signal(SIGTERM, leave);
  http.on_signal(SIGINT, leave);
  http.on_signal(SIGHUP, [](int) { toggle_debug(); });
  print_start(service, http);
  http.run();
  service.loop.end();
}

}  // namespace braid::server
