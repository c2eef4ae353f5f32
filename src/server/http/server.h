// HttpServer: listens, reads requests within limits, and hands them to a handler. Sockets live here and nowhere else.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "server/http/exchange.h"

namespace braid::server {

struct HttpLimits {
  size_t header_bytes = 32 << 10;
  size_t body_bytes = 32 << 20;
  size_t connections = 1024;           // open at a time; more get 503
  std::chrono::seconds request{30};    // from a request's first byte to its last
  std::chrono::seconds idle{75};       // between requests of a connection
  std::chrono::seconds write{60};      // for the client to take what is sent
  std::chrono::seconds handshake{10};  // TLS
};

struct HttpOptions {
  std::string host = "127.0.0.1";
  uint16_t port = 8080;                       // 0: any that is free
  std::string certificate_file, private_key;  // PEM files; both: TLS
  int threads = 2;
  HttpLimits limits;
  // The body of what the server itself refuses: 400, 408, 413, 431 and 503.
  std::function<HttpResponse(int status, const std::string& message)> refusal;
};

// As addresses are written: "host:port", and "[::1]:80" where the host is one of version 6.
std::string address(const std::string& host, uint16_t port);

class HttpServer {
 public:
  // Takes the address; clients are refused until `listen`. A Resource error in one line where that fails; a Usage error
  // for a host that is not known or a certificate that cannot be used.
  explicit HttpServer(HttpOptions options);
  HttpServer(HttpServer&&) noexcept;
  ~HttpServer();

  uint16_t port() const;
  // From now on clients may connect; `run` hands their requests to `handler`. Once.
  void listen(HttpHandler handler);
  // Calls `work` on a thread of the server after a time, unless it has ended before.
  void after(std::chrono::seconds time, std::function<void()> work);
  // `handler` is called on a thread of the server for every such signal.
  void on_signal(int signal, std::function<void(int)> handler);
  // Serves until `stop`, or until `drain` was called and the last exchange has ended.
  void run();
  // Any thread. Connections end with their present answer; idle ones now. The handler is still called for requests that
  // come in, and says that the server is leaving.
  void drain();
  // Any thread. Ends everything now.
  void stop();

  struct Load {
    size_t connections = 0, exchanges = 0;
  };
  Load load() const;

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace braid::server
