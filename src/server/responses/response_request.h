// Reads the body of POST /v1/responses.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>

#include "server/chat/request.h"
#include "server/responses/response_items.h"
#include "server/responses/response_store.h"
#include "server/service.h"

namespace braid::server {

struct ResponseRequest {
  ChatRequest chat;
  ResponseInput input;                 // of this request alone
  std::shared_ptr<const Turn> parent;  // what it goes on from
  Json echo;                           // the fields of a response that repeat those of its request
  bool stream = false;
  bool store = true;
  bool summary = false;  // thoughts are given as a summary
};

// Faults are ApiErrors that name the field.
ResponseRequest read_response_request(const Service& service, ResponseStore& store, const Json& body);

}  // namespace braid::server
