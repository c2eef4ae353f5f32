// SPDX-License-Identifier: Apache-2.0
#include "server/routes.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "base/error.h"
#include "base/log.h"
#include "server/openai/error.h"

namespace braid::server {
namespace {

void log_call(const CallRecord& record) {
  const TokenUsage& usage = record.usage;
  std::string figures;
  if (usage.prompt > 0) {
    const double span = record.last_token - record.first_token;
    const double rate = span > 0 ? static_cast<double>(usage.completion - 1) / span : 0;
    figures = fmt::format(" cached={} reuse_limit={} prefill={} decode={} first_token_ms={:.1f} tokens_per_s={:.1f}",
                          usage.cached, name_of(usage.limit), usage.prompt - usage.cached, usage.completion,
                          record.first_token * 1000, rate);
  }
  log::info("request id={} method={} path={} status={} key={} seconds={:.3f}{}", record.id, record.method,
            record.path.empty() ? "-" : record.path, record.status, record.key.empty() ? "-" : record.key,
            record.seconds, figures);
}

// Takes as long whatever the texts hold.
bool same_secret(std::string_view left, std::string_view right) {
  unsigned difference = left.size() == right.size() ? 0 : 1;
  for (size_t i = 0; i < left.size(); ++i)
    difference |= static_cast<unsigned char>(left[i] ^ (right.empty() ? 0 : right[i % right.size()]));
  return difference == 0;
}

std::string_view given_key(const HttpRequest& request) {
  constexpr std::string_view kBearer = "bearer ";  // in any case of letters
  const std::string_view authorization = request.header("authorization");
  const auto alike = [](char a, char b) { return std::tolower(static_cast<unsigned char>(a)) == b; };
  if (std::ranges::equal(authorization.substr(0, kBearer.size()), kBearer, alike))
    return authorization.substr(kBearer.size());
  return request.header("x-api-key");
}

std::vector<HttpHeader> cors_headers(const std::string& origin) {
  if (origin.empty()) return {};
  return {{"Access-Control-Allow-Origin", origin},
          {"Access-Control-Allow-Methods", "GET, POST, DELETE, OPTIONS"},
          {"Access-Control-Allow-Headers", "*, Authorization"},
          {"Access-Control-Expose-Headers", "X-Request-Id, Retry-After"},
          {"Access-Control-Max-Age", "86400"}};
}

}  // namespace

Router::Router(Service& service) : service_(service) {}

void Router::handle(std::shared_ptr<Exchange> exchange) {
  const auto call = std::make_shared<Call>(
      std::move(exchange),
      Call::Setting{.headers = cors_headers(service_.options.cors_origin), .finish = [this](const CallRecord& record) {
                      service_.metrics.add(record);
                      log_call(record);
                    }});
  try {
    dispatch(call);
  } catch (const ApiError& error) {
    call->respond(error);
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::Internal) log::error("request failed id={} error=\"{}\"", call->id(), error.what());
    call->respond(ApiError(error.kind() == ErrorKind::Internal ? Fault::Internal : Fault::Invalid, error.message()));
  } catch (const std::exception& error) {
    log::error("request failed id={} error=\"{}\"", call->id(), error.what());
    call->respond(ApiError(Fault::Internal, "the server failed; its log says why"));
  }
}

void Router::dispatch(const std::shared_ptr<Call>& call) {
  if (call->request().method == "OPTIONS") {
    call->set_route("*", openai_error);
    return call->respond(HttpResponse{.status = 204, .content_type = ""});
  }
  std::string rest;
  const Route& route = find(call, rest);
  if (!route.open) check_key(call);
  if (service_.draining && !route.while_leaving)
    throw ApiError(Fault::Unavailable, "the server is shutting down", "", "shutting_down");
  route.handler(call, rest);
}

const Route& Router::find(const std::shared_ptr<Call>& call, std::string& rest) const {
  const HttpRequest& request = call->request();
  const std::string_view method = request.method == "HEAD" ? "GET" : std::string_view(request.method);
  const Route* other = nullptr;
  for (const Route& route : routes_) {
    const bool prefix = route.path.size() > 1 && route.path.ends_with('/');
    if (prefix ? !request.path.starts_with(route.path) || request.path == route.path : request.path != route.path)
      continue;
    other = &route;
    call->set_route(route.path, route.form);
    if (route.method != method) continue;
    rest = prefix ? request.path.substr(route.path.size()) : "";
    return route;
  }
  if (other == nullptr)
    throw ApiError(Fault::NotFound, fmt::format("there is nothing at {}", request.path), "", "not_found");
  throw ApiError(Fault::Method, fmt::format("{} takes {}", request.path, other->method), "", "method_not_allowed");
}

void Router::check_key(const std::shared_ptr<Call>& call) const {
  if (service_.options.keys.empty()) return;
  const std::string_view given = given_key(call->request());
  const NamedKey* found = nullptr;
  for (const NamedKey& known : service_.options.keys)
    if (same_secret(given, known.key)) found = &known;
  if (found == nullptr)
    throw ApiError(Fault::Unauthorized, given.empty() ? "an API key is needed" : "this API key is not known here", "",
                   "invalid_api_key");
  call->set_key(found->name);
}

Json json_body(const Call& call) {
  try {
    return parse_json(call.request().body, "the body");
  } catch (const Error& error) {
    throw ApiError(Fault::Invalid, error.message(), "", "invalid_json");
  }
}

}  // namespace braid::server
