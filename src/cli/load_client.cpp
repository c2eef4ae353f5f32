// SPDX-License-Identifier: Apache-2.0
#include "cli/load_client.h"

#include <algorithm>
#include <boost/asio/steady_timer.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>
#include <chrono>
#include <optional>

#include "base/error.h"
#include "base/interrupt.h"
#include "base/version.h"
#include "cli/transport.h"

namespace braid::cli {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = beast::http;
using boost::system::error_code;
using Clock = std::chrono::steady_clock;
using Message = http::request<http::string_body>;

constexpr std::chrono::seconds kStallTime{120};

std::string address_of(const Endpoint& endpoint) {
  const bool version_six = endpoint.host.find(':') != std::string::npos;
  return fmt::format("{}{}{}:{}", version_six ? "[" : "", endpoint.host, version_six ? "]" : "", endpoint.port);
}

Message message(const Endpoint& endpoint, const std::string& method, const std::string& path, std::string body) {
  Message out{http::string_to_verb(method), endpoint.base + path, 11, std::move(body)};
  out.set(http::field::host, address_of(endpoint));
  out.set(http::field::user_agent, "braid/" + std::string(version()));
  if (!out.body().empty()) out.set(http::field::content_type, "application/json");
  if (!endpoint.key.empty()) out.set(http::field::authorization, "Bearer " + endpoint.key);
  out.prepare_payload();
  return out;
}

// Null where it is no JSON.
Json json_or_null(std::string_view text) {
  try {
    return parse_json(text, "");
  } catch (const Error&) {
    return {};
  }
}

bool has_text(const Json& object, const char* name) {
  const auto found = object.find(name);
  if (found == object.end()) return false;
  return found->is_string() ? !found->get_ref<const std::string&>().empty() : found->is_array() && !found->empty();
}

// Whether an event of a chat or completion stream carries a piece of the answer.
bool carries_piece(const Json& event) {
  const auto choices = event.find("choices");
  if (choices == event.end() || !choices->is_array()) return false;
  return std::ranges::any_of(*choices, [](const Json& choice) {
    if (!choice.is_object()) return false;
    if (has_text(choice, "text")) return true;
    const auto delta = choice.find("delta");
    if (delta == choice.end() || !delta->is_object()) return false;
    return std::ranges::any_of(
        std::initializer_list<const char*>{"content", "reasoning_content", "reasoning", "tool_calls"},
        [&](const char* name) { return has_text(*delta, name); });
  });
}

int64_t count_in(const Json& usage, const char* name) {
  const auto found = usage.find(name);
  return found != usage.end() && found->is_number_integer() ? found->get<int64_t>() : -1;
}

}  // namespace

Endpoint parse_endpoint(const std::string& url) {
  const auto refuse = [&](const char* why) { fail(ErrorKind::Usage, "--serve '{}': {}", url, why); };
  Endpoint out{.base = "/v1"};
  std::string rest = url;
  if (const size_t scheme = url.find("://"); scheme != std::string::npos) {
    out.tls = url.substr(0, scheme) == "https";
    if (!out.tls && url.substr(0, scheme) != "http") refuse("expected http://host:port");
    rest = url.substr(scheme + 3);
  }
  out.port = out.tls ? "443" : "80";
  if (const size_t slash = rest.find('/'); slash != std::string::npos) {
    std::string path = rest.substr(slash);
    while (path.ends_with('/')) path.pop_back();
    if (!path.empty()) out.base = path;
    rest.resize(slash);
  }
  const size_t colon = rest.rfind(':');
  if (colon != std::string::npos && rest.find(']', colon) == std::string::npos) {
    out.port = rest.substr(colon + 1);
    rest.resize(colon);
  }
  if (rest.starts_with('[') && rest.ends_with(']')) rest = rest.substr(1, rest.size() - 2);
  const bool digits = std::ranges::all_of(out.port, [](char c) { return c >= '0' && c <= '9'; });
  if (rest.empty() || out.port.empty() || out.port.size() > 5 || !digits) refuse("expected http://host:port");
  if (url.find_first_of(" \t\r\n?#@") != std::string::npos) refuse("expected http://host:port/path and nothing else");
  out.host = rest;
  return out;
}

std::string refusal(int status, const Json& body) {
  std::string why = std::string(http::obsolete_reason(static_cast<http::status>(status)));
  if (body.is_object()) {
    const auto error = body.find("error");
    const Json& holder = error != body.end() && error->is_object() ? *error : body;
    if (const auto text = holder.find("message"); text != holder.end() && text->is_string())
      why = text->get<std::string>();
    else if (error != body.end() && error->is_string())
      why = error->get<std::string>();
  }
  return fmt::format("{}: {}", status, why);
}

struct LoadClient::Shared {
  explicit Shared(const Endpoint& given) : endpoint(given) {
    error_code error;
    trust.set_default_verify_paths(error);
    trust.set_verify_mode(asio::ssl::verify_peer);
    asio::ip::tcp::resolver resolver(context);
    places = resolver.resolve(given.host, given.port, error);
    if (error) fail("{}: {}", given.host, error.message());
  }
  double now() const { return std::chrono::duration<double>(Clock::now() - start).count(); }
  Transport transport() { return {context, trust, endpoint.tls ? endpoint.host : ""}; }

  Endpoint endpoint;
  asio::io_context context;
  asio::ssl::context trust{asio::ssl::context::tls_client};
  Transport::Places places;
  std::vector<std::shared_ptr<Connection>> idle;
  Clock::time_point start = Clock::now();
};

// One request after the other. Each keeps itself alive until its `done` is called.
class LoadClient::Connection : public std::enable_shared_from_this<Connection> {
 public:
  explicit Connection(Shared& shared) : shared_(shared), transport_(shared.transport()) {}

  void start(Message request, Done done) {
    request_ = std::move(request);
    done_ = std::move(done);
    timing_ = {.sent = shared_.now()};
    pending_.clear();
    refused_.clear();
    reused_ = open_;
    if (open_)
      write();
    else
      connect();
  }

 private:
  // Goes on with `next` unless the operation failed.
  auto then(void (Connection::*next)()) {
    return [self = shared_from_this(), next](error_code error, auto&&...) {
      if (error)
        self->broken(error);
      else
        (*self.*next)();
    };
  }

  void connect() { transport_.connect(shared_.places, then(&Connection::write)); }
  void write() {
    open_ = true;
    transport_.tcp().expires_after(kStallTime);
    transport_.with([&](auto& stream) { http::async_write(stream, request_, then(&Connection::read_head)); });
  }
  void read_head() {
    parser_.emplace();
    parser_->body_limit(boost::none);
    transport_.with(
        [&](auto& stream) { http::async_read_header(stream, buffer_, *parser_, then(&Connection::read_body)); });
  }
  void read_body() {
    if (parser_->is_done()) return finish();
    transport_.tcp().expires_after(kStallTime);
    transport_.with(
        [&](auto& stream) { http::async_read_some(stream, buffer_, *parser_, then(&Connection::take_body)); });
  }
  void take_body() {
    const std::string text = std::exchange(parser_->get().body(), {});
    if (parser_->get().result_int() == 200)
      take_events(text);
    else
      refused_ += text;
    read_body();
  }

  void take_events(const std::string& text) {
    const double now = shared_.now();
    pending_ += text;
    size_t begin = 0;
    for (size_t end; (end = pending_.find('\n', begin)) != std::string::npos; begin = end + 1) {
      std::string_view line = std::string_view(pending_).substr(begin, end - begin);
      if (line.ends_with('\r')) line.remove_suffix(1);
      if (!line.starts_with("data:")) continue;
      line.remove_prefix(5);
      if (line.starts_with(' ')) line.remove_prefix(1);
      take_event(line, now);
    }
    pending_.erase(0, begin);
  }

  void take_event(std::string_view data, double now) {
    if (data == "[DONE]") return;
    const Json event = json_or_null(data);
    if (!event.is_object()) return fault("an event of the stream is no JSON object");
    if (const auto error = event.find("error"); error != event.end() && !error->is_null())
      fault(refusal(parser_->get().result_int(), event));
    if (const auto usage = event.find("usage"); usage != event.end() && usage->is_object()) {
      timing_.prompt_tokens = count_in(*usage, "prompt_tokens");
      timing_.answer_tokens = count_in(*usage, "completion_tokens");
    }
    if (!carries_piece(event)) return;
    if (timing_.pieces++ == 0)
      timing_.first = now;
    else
      timing_.gaps.push_back(now - timing_.last);
    timing_.last = now;
  }

  void fault(std::string why) {
    if (timing_.fault.empty()) timing_.fault = std::move(why);
  }

  void finish() {
    const int status = parser_->get().result_int();
    if (status != 200) fault(refusal(status, json_or_null(refused_)));
    if (timing_.pieces == 0) fault("the answer is no stream with a text in it");
    open_ = parser_->keep_alive();
    end();
  }

  void broken(error_code error) {
    // A server may close a connection that nothing was asked on; only a fresh one tells.
    const bool unasked = reused_ && (!parser_ || !parser_->got_some());
    transport_.tcp().close();
    buffer_.clear();
    open_ = false;
    if (std::exchange(reused_, false) && unasked) return connect();
    fault(error == beast::error::timeout ? "timed out" : error.message());
    end();
  }

  void end() {
    timing_.end = shared_.now();
    transport_.tcp().expires_never();
    if (open_) shared_.idle.push_back(shared_from_this());
    std::exchange(done_, nullptr)(std::move(timing_));
  }

  Shared& shared_;
  Transport transport_;
  beast::flat_buffer buffer_;
  Message request_;
  std::optional<http::response_parser<http::string_body>> parser_;
  Done done_;
  Timing timing_;
  std::string pending_, refused_;  // an event that is not whole; the body of a refusal
  bool open_ = false, reused_ = false;
};

LoadClient::LoadClient(const Endpoint& endpoint) : shared_(std::make_unique<Shared>(endpoint)) {}

LoadClient::~LoadClient() = default;

LoadClient::Reply LoadClient::ask(const std::string& method, const std::string& path, const std::string& body) {
  Transport transport = shared_->transport();
  beast::flat_buffer buffer;
  http::response<http::string_body> response;
  const Message request = message(shared_->endpoint, method, path, body);
  error_code error;
  const auto then = [&error](auto next) {
    return [&error, next](error_code failed, auto&&...) {
      error = failed;
      if (!failed) next();
    };
  };
  const auto read = [&] {
    transport.with([&](auto& stream) { http::async_read(stream, buffer, response, then([] {})); });
  };
  const auto write = [&] {
    transport.tcp().expires_after(kStallTime);
    transport.with([&](auto& stream) { http::async_write(stream, request, then(read)); });
  };
  transport.connect(shared_->places, then(write));
  run();
  if (error == asio::error::connection_refused) fail("{}: nobody listens there", address_of(shared_->endpoint));
  if (error == beast::error::timeout) fail("{}: no answer in time", address_of(shared_->endpoint));
  if (error) fail("{}: {}", address_of(shared_->endpoint), error.message());
  return {static_cast<int>(response.result_int()), json_or_null(response.body())};
}

void LoadClient::start(const std::string& path, std::string body, Done done) {
  std::shared_ptr<Connection> connection;
  if (shared_->idle.empty()) {
    connection = std::make_shared<Connection>(*shared_);
  } else {
    connection = shared_->idle.back();
    shared_->idle.pop_back();
  }
  connection->start(message(shared_->endpoint, "POST", path, std::move(body)), std::move(done));
}

void LoadClient::at(double seconds, std::function<void()> work) {
  const auto timer = std::make_shared<asio::steady_timer>(
      shared_->context,
      shared_->start + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds)));
  timer->async_wait([timer, work = std::move(work)](error_code error) {
    if (!error) work();
  });
}

double LoadClient::now() const { return shared_->now(); }

void LoadClient::run() {
  shared_->context.restart();
  while (!shared_->context.stopped()) {
    shared_->context.run_for(std::chrono::milliseconds(50));
    check_interrupted();
  }
}

}  // namespace braid::cli
