// SPDX-License-Identifier: Apache-2.0
#include "server/http/connection.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <array>
#include <boost/asio/post.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>
#include <ctime>
#include <optional>
#include <type_traits>

namespace braid::server {
namespace {

namespace asio = boost::asio;
namespace http = boost::beast::http;
using asio::ip::tcp;
using boost::system::error_code;
using Parser = http::request_parser<http::string_body>;

constexpr size_t kReadBytes = 16 << 10;
// How much of later requests is read while one is being answered; then the client has to wait.
constexpr size_t kAheadBytes = 64 << 10;
// After a refusal the rest of what the client sends is read and dropped, or the refusal would be lost with it.
constexpr size_t kLingerBytes = 64 << 20;
constexpr std::chrono::seconds kLingerTime{5};

class Live;

// The part of a connection that an exchange calls; on the connection's strand.
class Carrier : public Closable, public std::enable_shared_from_this<Carrier> {
 public:
  virtual asio::any_io_executor executor() = 0;
  virtual void answer(const Live& from, HttpResponse response) = 0;
  virtual void begin_stream(const Live& from, HttpResponse head) = 0;
  virtual void pump() = 0;
};

// An exchange that is under way. All but `woken_` is touched on the strand alone.
class Live : public Exchange, public std::enable_shared_from_this<Live> {
 public:
  Live(const std::shared_ptr<Carrier>& carrier, HttpRequest request)
      : carrier_(carrier), executor_(carrier->executor()), request_(std::move(request)) {}

  const HttpRequest& request() const override { return request_; }

  void respond(HttpResponse response) override {
    on_strand([response = std::move(response)](Live& self, Carrier& carrier) mutable {
      if (!self.begun_ && !self.over_) self.begun_ = true, carrier.answer(self, std::move(response));
    });
  }

  void stream(HttpResponse head, Pull pull) override {
    on_strand([head = std::move(head), pull = std::move(pull)](Live& self, Carrier& carrier) mutable {
      if (self.begun_ || self.over_) return;
      self.begun_ = true;
      self.pull_ = std::move(pull);
      carrier.begin_stream(self, std::move(head));
    });
  }

  void wake() override {
    if (woken_.exchange(true)) return;
    on_strand([](Live& self, Carrier& carrier) {
      if (self.pull_) carrier.pump();
    });
  }

  void post(std::function<void()> work) override {
    on_strand([work = std::move(work)](Live& self, Carrier&) {
      if (!self.over_) work();
    });
  }

  void on_close(std::function<void()> closed) override {
    asio::post(executor_, [self = shared_from_this(), closed = std::move(closed)]() mutable {
      if (self->gone_)
        closed();
      else if (!self->over_)
        self->closed_ = std::move(closed);
    });
  }

  // ---- for the connection
  bool streams() const { return static_cast<bool>(pull_); }
  bool take_wake() { return woken_.exchange(false); }
  bool pull(std::string& out) { return pull_(out); }
  // What the functions hold is let go, since it usually holds the exchange.
  void end(bool gone) {
    if (over_) return;
    over_ = true;
    gone_ = gone;
    const Pull pull = std::move(pull_);
    pull_ = nullptr;
    const std::function<void()> closed = std::move(closed_);
    closed_ = nullptr;
    if (gone && closed) closed();
  }

 private:
  template <typename Work>
  void on_strand(Work work) {
    asio::post(executor_, [self = shared_from_this(), work = std::move(work)]() mutable {
      if (const auto carrier = self->carrier_.lock()) work(*self, *carrier);
    });
  }

  std::weak_ptr<Carrier> carrier_;
  asio::any_io_executor executor_;
  HttpRequest request_;
  std::atomic<bool> woken_{true};  // a stream is asked once it has begun
  bool begun_ = false, over_ = false, gone_ = false;
  Pull pull_;
  std::function<void()> closed_;
};

std::string head_of(const HttpResponse& response, std::string_view framing, bool keep_alive) {
  std::string out = fmt::format("HTTP/1.1 {} {}\r\nDate: {:%a, %d %b %Y %H:%M:%S} GMT\r\n", response.status,
                                reason_of(response.status), fmt::gmtime(std::time(nullptr)));
  if (!response.content_type.empty()) out += fmt::format("Content-Type: {}\r\n", response.content_type);
  for (const HttpHeader& header : response.headers) out += fmt::format("{}: {}\r\n", header.name, header.value);
  out += fmt::format("{}Connection: {}\r\n\r\n", framing, keep_alive ? "keep-alive" : "close");
  return out;
}

HttpRequest request_of(http::request<http::string_body>&& message, const std::string& peer) {
  HttpRequest out{.method = std::string(message.method_string()), .body = std::move(message.body()), .peer = peer};
  const std::string_view target(message.target().data(), message.target().size());
  const size_t question = target.find('?');
  out.path = decode_percent(target.substr(0, question));
  if (question != std::string_view::npos) out.query = target.substr(question + 1);
  for (const auto& field : message)
    out.headers.push_back({std::string(field.name_string()), std::string(field.value())});
  return out;
}

// Stream: a socket, or TLS over one. Everything but close_when_idle runs on the strand.
template <typename Stream>
class Connection : public Carrier {
 public:
  template <typename... Context>
  Connection(tcp::socket socket, std::shared_ptr<Shared> shared, Context&... context)
      : shared_(std::move(shared)), stream_(std::move(socket), context...), timer_(stream_.get_executor()) {
    error_code error;
    const tcp::endpoint peer = stream_.lowest_layer().remote_endpoint(error);
    if (!error) peer_ = fmt::format("{}:{}", peer.address().to_string(), peer.port());
    stream_.lowest_layer().set_option(tcp::no_delay(true), error);
    ++shared_->connections;
    const std::lock_guard lock(shared_->mutex);
    shared_->open.insert(this);
  }

  ~Connection() override {
    if (exchange_) exchange_->end(true), --shared_->exchanges;
    --shared_->connections;
    const std::lock_guard lock(shared_->mutex);
    shared_->open.erase(this);
  }

  void start() {
    if (shared_->connections > shared_->options.limits.connections) {
      refuse(503, "too many connections");
      return;
    }
    if constexpr (kTls) {
      arm(shared_->options.limits.handshake, [this] { close(); });
      stream_.async_handshake(asio::ssl::stream_base::server, [this, self = self()](error_code error) {
        if (error) return close();
        await_request();
      });
    } else {
      await_request();
    }
  }

  asio::any_io_executor executor() override { return stream_.get_executor(); }

  std::shared_ptr<Closable> alive() override { return this->weak_from_this().lock(); }
  void close_when_idle() override {
    asio::post(stream_.get_executor(), [this, self = self()] {
      if (!exchange_ && !reading_body()) close();
    });
  }

  void answer(const Live& from, HttpResponse response) override {
    if (exchange_.get() != &from) return;
    if (shared_->draining) keep_alive_ = false;
    const std::string length = fmt::format("Content-Length: {}\r\n", response.body.size());
    std::string out = head_of(response, response.status == 204 ? "" : length, keep_alive_);
    if (!head_only_) out += response.body;
    last_ = true;
    write(std::move(out));
  }

  void begin_stream(const Live& from, HttpResponse head) override {
    if (exchange_.get() != &from) return;
    if (shared_->draining || !chunked_) keep_alive_ = false;
    write(head_of(head, chunked_ ? "Transfer-Encoding: chunked\r\n" : "", keep_alive_));
  }

  void pump() override {
    if (writing_ || last_ || !exchange_ || !exchange_->streams() || !exchange_->take_wake()) return;
    std::string piece;
    last_ = !exchange_->pull(piece);
    std::string out;
    if (!chunked_)
      out = std::move(piece);
    else if (!piece.empty())
      out = fmt::format("{:x}\r\n{}\r\n", piece.size(), piece);
    if (last_ && chunked_) out += "0\r\n\r\n";
    if (!out.empty() || last_) write(std::move(out));
  }

 private:
  static constexpr bool kTls = !std::is_same_v<Stream, tcp::socket>;

  std::shared_ptr<Connection> self() { return std::static_pointer_cast<Connection>(this->shared_from_this()); }
  bool reading_body() const { return begun_; }

  template <typename Late>
  void arm(std::chrono::seconds time, Late late) {
    timer_.expires_after(time);
    timer_.async_wait([this, self = self(), late](error_code error) {
      if (!error && timer_.expiry() <= asio::steady_timer::clock_type::now()) late();
    });
  }

  void await_request() {
    parser_.emplace();
    parser_->eager(true);
    parser_->header_limit(static_cast<uint32_t>(shared_->options.limits.header_bytes));
    parser_->body_limit(shared_->options.limits.body_bytes);
    begun_ = continued_ = false;
    arm(shared_->options.limits.idle, [this] { close(); });
    if (buffer_.size() > 0) consume();
    read();
  }

  // One read is always under way, also while an answer is being made: its end says that the client has gone. It has
  // memory of its own, since what came before is taken out of the buffer meanwhile.
  void read() {
    if (reading_ || closed_ || (exchange_ && buffer_.size() >= kAheadBytes)) return;
    reading_ = true;
    stream_.async_read_some(asio::buffer(incoming_), [this, self = self()](error_code error, size_t bytes) {
      reading_ = false;
      // A client that leaves once it has read the whole answer is no client that went away: the end of writing, which
      // comes at any moment, says that it is there.
      if (error && exchange_ && writing_ && last_) return;
      if (error) return close();
      if (lingering_) {
        if ((dropped_ += bytes) > kLingerBytes) return close();
        return read();
      }
      buffer_.commit(asio::buffer_copy(buffer_.prepare(bytes), asio::buffer(incoming_, bytes)));
      if (!exchange_) consume();
      read();
    });
  }

  void consume() {
    if (!begun_) {
      begun_ = true;
      arm(shared_->options.limits.request, [this] { refuse(408, "the request did not arrive in time"); });
    }
    error_code error;
    while (buffer_.size() > 0 && !parser_->is_done() && !error) buffer_.consume(parser_->put(buffer_.data(), error));
    if (error == http::error::need_more) error = {};
    if (error == http::error::body_limit)
      return refuse(413, fmt::format("the body is longer than {} bytes", shared_->options.limits.body_bytes));
    if (error == http::error::header_limit) return refuse(431, "the headers are too long");
    if (error) return refuse(400, fmt::format("not a request of HTTP/1.1: {}", error.message()));
    if (parser_->is_done()) return dispatch();
    if (parser_->is_header_done() && !continued_ && parser_->get()[http::field::expect] == "100-continue") {
      continued_ = true;
      write("HTTP/1.1 100 Continue\r\n\r\n");
    }
  }

  void dispatch() {
    keep_alive_ = parser_->keep_alive();
    chunked_ = parser_->get().version() >= 11;
    head_only_ = parser_->get().method() == http::verb::head;
    last_ = false;
    timer_.cancel();
    ++shared_->exchanges;
    exchange_ = std::make_shared<Live>(self(), request_of(parser_->release(), peer_));
    shared_->handler(exchange_);
  }

  void write(std::string text) {
    if (closed_) return;
    if (writing_) {  // a head that follows "100 Continue"
      next_ += text;
      return;
    }
    writing_ = true;
    out_ = std::move(text);
    if (exchange_) arm(shared_->options.limits.write, [this] { close(); });
    asio::async_write(stream_, asio::buffer(out_), [this, self = self()](error_code error, size_t) {
      writing_ = false;
      if (error) return close();
      if (!next_.empty()) return write(std::exchange(next_, {}));
      if (lingering_) return half_close();
      if (!exchange_) return;
      timer_.cancel();
      if (last_)
        finish();
      else
        pump();
    });
  }

  void finish() {
    end_exchange(false);
    if (!keep_alive_ || shared_->draining) {
      lingering_ = true;
      return half_close();
    }
    await_request();
  }

  void end_exchange(bool gone) {
    if (!exchange_) return;
    exchange_->end(gone);
    exchange_.reset();
    --shared_->exchanges;
    shared_->exchange_ended();
  }

  // Answers a request that never became an exchange, and ends the connection.
  void refuse(int status, const std::string& message) {
    if (closed_ || lingering_) return;
    lingering_ = true;
    const HttpResponse response = shared_->options.refusal(status, message);
    arm(kLingerTime, [this] { close(); });
    write(head_of(response, fmt::format("Content-Length: {}\r\n", response.body.size()), false) + response.body);
    read();
  }

  void half_close() {
    error_code ignored;
    buffer_.clear();
    arm(kLingerTime, [this] { close(); });
    stream_.lowest_layer().shutdown(tcp::socket::shutdown_send, ignored);
    read();
  }

  void close() {
    if (closed_) return;
    closed_ = true;
    error_code ignored;
    timer_.cancel();
    stream_.lowest_layer().close(ignored);
    end_exchange(true);
  }

  std::shared_ptr<Shared> shared_;
  Stream stream_;
  asio::steady_timer timer_;
  std::array<char, kReadBytes> incoming_;
  boost::beast::flat_buffer buffer_;
  std::optional<Parser> parser_;
  std::shared_ptr<Live> exchange_;
  std::string peer_, out_, next_;
  size_t dropped_ = 0;
  bool reading_ = false, writing_ = false, closed_ = false, lingering_ = false;
  bool begun_ = false, continued_ = false;                                        // of the request that arrives
  bool keep_alive_ = false, chunked_ = false, head_only_ = false, last_ = false;  // of the answer
};

}  // namespace

void start_connection(tcp::socket socket, std::shared_ptr<Shared> shared, asio::ssl::context* tls) {
  const auto executor = socket.get_executor();
  const auto start = [executor](const auto& connection) {
    asio::post(executor, [connection] { connection->start(); });
  };
  if (tls == nullptr)
    start(std::make_shared<Connection<tcp::socket>>(std::move(socket), std::move(shared)));
  else
    start(std::make_shared<Connection<asio::ssl::stream<tcp::socket>>>(std::move(socket), std::move(shared), *tls));
}

}  // namespace braid::server
