// One connection: reads requests, runs one exchange at a time, and notices when the client has gone.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ssl/context.hpp>
#include <functional>
#include <memory>
#include <mutex>
#include <set>

#include "server/http/server.h"

namespace braid::server {

// What the server asks of any connection, from any thread.
class Closable {
 public:
  virtual ~Closable() = default;
  virtual std::shared_ptr<Closable> alive() = 0;  // null once it is being destroyed
  virtual void close_when_idle() = 0;
};

// What all connections of a server share. `open` is guarded by `mutex`.
struct Shared {
  HttpOptions options;
  HttpHandler handler;
  std::atomic<size_t> connections{0}, exchanges{0};
  std::atomic<bool> draining{false};
  std::function<void()> exchange_ended;
  std::mutex mutex;
  std::set<Closable*> open;
};

// Begins to serve the socket, whose executor is a strand; with TLS where a context is given. It lives until it closes.
void start_connection(boost::asio::ip::tcp::socket socket, std::shared_ptr<Shared> shared,
                      boost::asio::ssl::context* tls);

}  // namespace braid::server
