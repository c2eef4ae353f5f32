// SPDX-License-Identifier: Apache-2.0
#include "server/http/server.h"

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/strand.hpp>
#include <list>
#include <optional>
#include <thread>
#include <vector>

#include "base/error.h"
#include "base/log.h"
#include "server/http/connection.h"

namespace braid::server {

namespace asio = boost::asio;
using asio::ip::tcp;
using boost::system::error_code;

namespace {

asio::ssl::context tls_context(const HttpOptions& options) {
  asio::ssl::context context(asio::ssl::context::tls_server);
  context.set_options(asio::ssl::context::default_workarounds | asio::ssl::context::no_sslv2 |
                      asio::ssl::context::no_sslv3 | asio::ssl::context::no_tlsv1 | asio::ssl::context::no_tlsv1_1);
  error_code error;
  context.use_certificate_chain_file(options.certificate_file, error);
  if (error) fail(ErrorKind::Usage, "{}: no certificate: {}", options.certificate_file, error.message());
  context.use_private_key_file(options.private_key, asio::ssl::context::pem, error);
  if (error) fail(ErrorKind::Usage, "{}: no private key: {}", options.private_key, error.message());
  return context;
}

}  // namespace

std::string address(const std::string& host, uint16_t port) {
  return host.find(':') == std::string::npos ? fmt::format("{}:{}", host, port) : fmt::format("[{}]:{}", host, port);
}

struct HttpServer::Parts {
  explicit Parts(HttpOptions options) : shared(std::make_shared<Shared>()), acceptor(io), retry(io) {
    shared->options = std::move(options);
    shared->exchange_ended = [this] { stop_if_drained(); };
    const HttpOptions& o = shared->options;
    if (!o.certificate_file.empty()) tls.emplace(tls_context(o));
    bind(o);
  }

  void bind(const HttpOptions& o) {
    error_code error;
    const auto found = tcp::resolver(io).resolve(o.host, std::to_string(o.port), tcp::resolver::passive, error);
    if (error) fail(ErrorKind::Usage, "--host {}: {}", o.host, error.message());
    const tcp::endpoint endpoint = found.begin()->endpoint();
    acceptor.open(endpoint.protocol(), error), check(error);
    acceptor.set_option(tcp::acceptor::reuse_address(true), error), check(error);
    acceptor.bind(endpoint, error), check(error);
  }

  void listen() {
    error_code error;
    acceptor.listen(asio::socket_base::max_listen_connections, error), check(error);
  }

  void check(error_code error) const {
    const HttpOptions& o = shared->options;
    if (error) fail(ErrorKind::Resource, "cannot listen on {}: {}", address(o.host, o.port), error.message());
  }

  void accept() {
    acceptor.async_accept(asio::make_strand(io), [this](error_code error, tcp::socket socket) {
      if (!acceptor.is_open() || error == asio::error::operation_aborted) return;
      if (error) {  // no file descriptors, most likely: they come back as connections end
        log::warn("accept failed: {}", error.message());
        retry.expires_after(std::chrono::milliseconds(100));
        retry.async_wait([this](error_code) { accept(); });
        return;
      }
      start_connection(std::move(socket), shared, tls ? &*tls : nullptr);
      accept();
    });
  }

  void await(asio::signal_set& set, const std::shared_ptr<std::function<void(int)>>& handler) {
    set.async_wait([this, &set, handler](error_code error, int signal) {
      if (error) return;
      (*handler)(signal);
      await(set, handler);
    });
  }

  void stop_if_drained() {
    if (shared->draining && shared->exchanges == 0) io.stop();
  }

  // Connections that `io` still holds when it goes use the shared part: it goes later.
  std::shared_ptr<Shared> shared;
  std::optional<asio::ssl::context> tls;
  asio::io_context io;
  tcp::acceptor acceptor;
  asio::steady_timer retry;
  std::list<asio::signal_set> signals;
};

HttpServer::HttpServer(HttpOptions options) : parts_(std::make_unique<Parts>(std::move(options))) {}

HttpServer::HttpServer(HttpServer&&) noexcept = default;
HttpServer::~HttpServer() = default;

void HttpServer::listen(HttpHandler handler) {
  parts_->shared->handler = std::move(handler);
  parts_->listen();
}

uint16_t HttpServer::port() const { return parts_->acceptor.local_endpoint().port(); }

void HttpServer::after(std::chrono::seconds time, std::function<void()> work) {
  auto timer = std::make_shared<asio::steady_timer>(parts_->io, time);
  timer->async_wait([timer, work = std::move(work)](error_code error) {
    if (!error) work();
  });
}

void HttpServer::on_signal(int signal, std::function<void(int)> handler) {
  asio::signal_set& set = parts_->signals.emplace_back(parts_->io, signal);
  parts_->await(set, std::make_shared<std::function<void(int)>>(std::move(handler)));
}

void HttpServer::run() {
  parts_->accept();
  std::vector<std::jthread> threads;
  for (int i = 1; i < parts_->shared->options.threads; ++i) threads.emplace_back([this] { parts_->io.run(); });
  parts_->io.run();
}

void HttpServer::drain() {
  Shared& shared = *parts_->shared;
  shared.draining = true;
  // Whoever lets go of a connection last takes the lock in its destructor: here that is done without it.
  std::vector<std::shared_ptr<Closable>> open;
  {
    const std::lock_guard lock(shared.mutex);
    for (Closable* connection : shared.open)
      if (auto alive = connection->alive()) open.push_back(std::move(alive));
  }
  for (const auto& connection : open) connection->close_when_idle();
  asio::post(parts_->io, [this] { parts_->stop_if_drained(); });
}

void HttpServer::stop() { parts_->io.stop(); }

HttpServer::Load HttpServer::load() const { return {parts_->shared->connections, parts_->shared->exchanges}; }

}  // namespace braid::server
