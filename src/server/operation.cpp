// The routes that belong to no API: the chat page, health, metrics, version.
// SPDX-License-Identifier: Apache-2.0
#include "base/version.h"
#include "server/openai/error.h"
#include "server/page/page.h"
#include "server/routes.h"

namespace braid::server {
namespace {

void health(const Service& service, const std::shared_ptr<Call>& call) {
  const bool ready = !service.draining;
  call->respond(HttpResponse{.status = ready ? 200 : 503,
                             .body = dump({{"status", ready ? "ok" : "leaving"}, {"alive", true}, {"ready", ready}})});
}

void page(const std::shared_ptr<Call>& call) {
  call->respond(HttpResponse{.content_type = "text/html; charset=utf-8",
                             .body = std::string(chat_page()),
                             .headers = {{"Content-Security-Policy",
                                          "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; "
                                          "connect-src 'self'; base-uri 'none'; form-action 'self'"},
                                         {"X-Content-Type-Options", "nosniff"}}});
}

}  // namespace

void add_operation_routes(Router& router, Service& service) {
  const auto add = [&](const char* path, bool open, RouteHandler handler) {
    router.add({.method = "GET",
                .path = path,
                .handler = std::move(handler),
                .form = openai_error,
                .open = open,
                .while_leaving = true});
  };
  add("/", true, [](const auto& call, const std::string&) { page(call); });
  add("/health", true, [&service](const auto& call, const std::string&) { health(service, call); });
  add("/metrics", false, [&service](const auto& call, const std::string&) {
    call->respond(HttpResponse{.content_type = "text/plain; version=0.0.4; charset=utf-8",
                               .body = service.metrics.text(service.loop.load())});
  });
  add("/version", false, [](const auto& call, const std::string&) {
    call->respond(HttpResponse{.body = dump({{"version", version()}, {"commit", commit()}})});
  });
}

}  // namespace braid::server
