// Bytes as a client might send them, over a real connection: no crash, no hang, an answer or the end.
// SPDX-License-Identifier: Apache-2.0
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <thread>

#include "base/error.h"
#include "base/json.h"
#include "server/api_error.h"
#include "server/chat/messages.h"
#include "server/fields.h"
#include "server/http/server.h"

namespace {

using namespace braid;
using namespace braid::server;

int answer_to(const std::string& body) {
  try {
    const Json json = parse_json(body, "body");
    Fields fields(json);
    if (const Json* messages = fields.list("messages")) normal_messages(*messages);
    if (const Json* tools = fields.list("tools")) normal_tools(*tools);
    fields.integer("n", 1, 128), fields.number("temperature", 0, 2), fields.texts("stop"), fields.tokens("ids", 1000);
    return 200;
  } catch (const ApiError& error) {
    return status_of(error.fault);
  } catch (const Error&) {
    return 400;
  }
}

void handle(const std::shared_ptr<Exchange>& exchange) {
  const int status = answer_to(exchange->request().body);
  exchange->on_close([] {});
  if (exchange->request().path != "/stream") return exchange->respond({.status = status, .body = "{}"});
  auto left = std::make_shared<int>(3);
  exchange->stream({.status = status}, [exchange, left](std::string& out) {
    out += "piece";
    if (--*left > 0) exchange->wake();
    return *left > 0;
  });
}

uint16_t serve() {
  HttpOptions options{.port = 0};
  options.limits = {.header_bytes = 4096, .body_bytes = 65536, .request = std::chrono::seconds(2)};
  options.refusal = [](int status, const std::string& message) {
    return HttpResponse{.status = status, .body = message};
  };
  static HttpServer server(options);
  server.listen(handle);
  static std::thread thread([] { server.run(); });
  std::atexit([] {
    server.stop();
    thread.join();
  });
  return server.port();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const uint16_t port = serve();
  const int client = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{.sin_family = AF_INET, .sin_port = htons(port), .sin_addr = {htonl(INADDR_LOOPBACK)}};
  if (client < 0 || ::connect(client, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) std::abort();
  const timeval patience{.tv_sec = 10};
  ::setsockopt(client, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
  // In two pieces, so that the border between reads falls anywhere.
  const size_t first = size == 0 ? 0 : data[0] % size;
  [[maybe_unused]] ssize_t sent = ::send(client, data, first, MSG_NOSIGNAL);
  sent = ::send(client, data + first, size - first, MSG_NOSIGNAL);
  ::shutdown(client, SHUT_WR);
  char bytes[4096];
  ssize_t got = 0;
  while ((got = ::recv(client, bytes, sizeof bytes, 0)) > 0) {
  }
  if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) std::abort();  // the server hangs
  // Else ports of ended connections wait until none is left.
  const linger none{.l_onoff = 1, .l_linger = 0};
  ::setsockopt(client, SOL_SOCKET, SO_LINGER, &none, sizeof none);
  ::close(client);
  return 0;
}
