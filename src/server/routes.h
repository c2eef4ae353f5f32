// Routes: which path is answered by what, who may ask, and what becomes of errors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "server/call.h"
#include "server/service.h"

namespace braid::server {

// Answers a call now or later; an exception before it did is answered for it. `rest`: what follows the path of a route
// that ends in '/'.
using RouteHandler = std::function<void(const std::shared_ptr<Call>& call, const std::string& rest)>;

struct Route {
  std::string method, path;
  RouteHandler handler;
  ErrorForm form;
  bool open = false;           // without a key
  bool while_leaving = false;  // also when the server drains
};

class Router {
 public:
  explicit Router(Service& service);
  void add(Route route) { routes_.push_back(std::move(route)); }
  // As HttpHandler.
  void handle(std::shared_ptr<Exchange> exchange);

 private:
  void dispatch(const std::shared_ptr<Call>& call);
  const Route& find(const std::shared_ptr<Call>& call, std::string& rest) const;
  void check_key(const std::shared_ptr<Call>& call) const;

  Service& service_;
  std::vector<Route> routes_;
};

// The body of a call as JSON. An ApiError (Invalid) where it is none.
Json json_body(const Call& call);

// What each group adds.
void add_openai_routes(Router& router, Service& service);
void add_anthropic_routes(Router& router, Service& service);
void add_responses_routes(Router& router, Service& service);
void add_token_routes(Router& router, Service& service);
void add_operation_routes(Router& router, Service& service);

}  // namespace braid::server
