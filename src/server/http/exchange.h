// One request and its answer: how what is above the sockets answers, at once or piece by piece.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "server/http/message.h"

namespace braid::server {

// Appends what is to be sent next, perhaps nothing; false: that was the last of it. It is called again only when the
// client has taken everything before, so what waits for a slow client waits where it was made.
using Pull = std::function<bool(std::string& out)>;

// Any thread may call any of these; the functions that are handed over run one at a time on the connection's own thread
// of execution. Exactly one of `respond` and `stream` ends an exchange. After the end, or once the client is gone,
// every call does nothing.
class Exchange {
 public:
  virtual ~Exchange() = default;
  virtual const HttpRequest& request() const = 0;

  virtual void respond(HttpResponse response) = 0;
  // Sends the head now; the body comes from `pull`, which is asked now and after every `wake`.
  virtual void stream(HttpResponse head, Pull pull) = 0;
  virtual void wake() = 0;
  virtual void post(std::function<void()> work) = 0;
  // Called once if the client goes away, or the server gives up on it, before the answer has ended; at once where that
  // has happened already.
  virtual void on_close(std::function<void()> closed) = 0;
};

// Called for every request that arrived whole. It may answer later, and from another thread. It must not throw.
using HttpHandler = std::function<void(std::shared_ptr<Exchange>)>;

}  // namespace braid::server
