// Transport: a connection to a server, with TLS or without.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ssl.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/ssl.hpp>
#include <chrono>
#include <optional>
#include <string>
#include <utility>

namespace braid::cli {

// `context` and `trust` outlive it. Whoever calls `connect` and `with` stays until what they began has ended.
class Transport {
 public:
  using Tcp = boost::beast::tcp_stream;
  using Places = boost::asio::ip::tcp::resolver::results_type;

  static constexpr std::chrono::seconds kConnectTime{10};

  // `tls_host`: whose certificate is asked for; empty: no TLS.
  Transport(boost::asio::io_context& context, boost::asio::ssl::context& trust, std::string tls_host)
      : context_(context), trust_(trust), tls_host_(std::move(tls_host)) {
    stream_.emplace(context_, trust_);
  }

  // A fresh connection in place of the one before; `done(error)`.
  template <typename Done>
  void connect(const Places& places, Done done) {
    stream_.emplace(context_, trust_);
    tcp().expires_after(kConnectTime);
    tcp().async_connect(places, [this, done](boost::system::error_code error, auto&&...) mutable {
      if (error || tls_host_.empty()) return done(error);
      SSL_set_tlsext_host_name(stream_->native_handle(), tls_host_.c_str());
      stream_->set_verify_callback(boost::asio::ssl::host_name_verification(tls_host_));
      stream_->async_handshake(boost::asio::ssl::stream_base::client, std::move(done));
    });
  }

  // Calls `use` with what is read from and written to.
  template <typename Use>
  void with(Use use) {
    if (tls_host_.empty())
      use(tcp());
    else
      use(*stream_);
  }
  // For times and for closing.
  Tcp& tcp() { return stream_->next_layer(); }

 private:
  boost::asio::io_context& context_;
  boost::asio::ssl::context& trust_;
  std::string tls_host_;
  std::optional<boost::beast::ssl_stream<Tcp>> stream_;
};

}  // namespace braid::cli
