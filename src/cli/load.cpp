// SPDX-License-Identifier: Apache-2.0
#include "cli/load.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <map>
#include <random>

#include "base/error.h"
#include "cli/load_client.h"
#include "cli/options.h"

namespace braid::cli {
namespace {

constexpr const char* kPath = "/chat/completions";
constexpr int64_t kDefaultRequests = 100, kMostTokens = 1 << 24;
constexpr double kPause = 0.1;  // seconds that a stream waits after a request that failed

constexpr std::array kWords{"river", "tower", "music", "stone", "light", "green", "water", "house", "small", "night",
                            "paper", "table", "round", "bread", "cloud", "horse", "glass", "seven", "north", "happy",
                            "chair", "field", "quiet", "metal", "apple", "story", "sharp", "woman", "plant", "ocean"};

using Random = std::mt19937_64;

std::string words(int64_t count, Random& random) {
  std::string out;
  for (int64_t i = 0; i < count; ++i) out.append(i == 0 ? "" : " ").append(kWords[random() % kWords.size()]);
  return out;
}

int64_t draw(const Lengths& lengths, Random& random) {
  return std::uniform_int_distribution(lengths.low, lengths.high)(random);
}

// What is asked of this server: found out by asking it.
struct Asking {
  std::string model;
  bool ignores_end = true;     // it takes "ignore_eos", so that answers have the length that is asked for
  double fixed = 0, word = 1;  // tokens of a prompt: of the template, and of each word

  Json body(const std::string& text, int64_t tokens) const {
    Json out = {
        {"model", model}, {"messages", Json::array({{{"role", "user"}, {"content", text}}})}, {"max_tokens", tokens}};
    if (ignores_end) out["ignore_eos"] = true;
    return out;
  }
  int64_t words_for(int64_t tokens) const {
    return std::max<int64_t>(1, std::llround((static_cast<double>(tokens) - fixed) / word));
  }
};

// The prompt tokens of a request of so many words.
double probe(LoadClient& client, const Asking& asking, int64_t count, Random& random) {
  const LoadClient::Reply reply = client.ask("POST", kPath, asking.body(words(count, random), 1).dump());
  if (reply.status != 200) fail("{}", refusal(reply.status, reply.body));
  if (!reply.body.is_object() || !reply.body.contains("choices"))
    fail("what answers there is no OpenAI-compatible server");
  const auto usage = reply.body.find("usage");
  if (usage == reply.body.end() || !usage->is_object()) return static_cast<double>(count);
  return static_cast<double>(usage->value("prompt_tokens", count));
}

std::string first_model(LoadClient& client) {
  const LoadClient::Reply reply = client.ask("GET", "/models", "");
  if (reply.status != 200) fail("{}", refusal(reply.status, reply.body));
  const auto data = reply.body.is_object() ? reply.body.find("data") : reply.body.end();
  if (!reply.body.is_object() || data == reply.body.end() || !data->is_array() || data->empty() ||
      !(*data)[0].is_object() || !(*data)[0].contains("id"))
    fail("the server lists no model; --model names one");
  return (*data)[0]["id"].get<std::string>();
}

Asking ask_first(LoadClient& client, const LoadOptions& options, Random& random) {
  constexpr int64_t kFew = 8, kMany = 72;
  return with_context("--serve " + options.url, [&] {
    Asking asking{.model = options.model.empty() ? first_model(client) : options.model};
    const Json body = asking.body("hello", 1);
    if (const auto reply = client.ask("POST", kPath, body.dump()); reply.status == 400 || reply.status == 422)
      asking.ignores_end = false;
    const double few = probe(client, asking, kFew, random), many = probe(client, asking, kMany, random);
    asking.word = std::max((many - few) / static_cast<double>(kMany - kFew), 0.1);
    asking.fixed = std::max(few - asking.word * static_cast<double>(kFew), 0.0);
    return asking;
  });
}

// Begins requests when it is their time, and keeps what came of them.
class Load {
 public:
  Load(LoadClient& client, const LoadOptions& options, Asking asking, Random random)
      : client_(client), options_(options), asking_(std::move(asking)), random_(random), start_(client.now()) {
    if (options_.requests == 0 && options_.seconds == 0) options_.requests = kDefaultRequests;
  }
  void run() {
    if (options_.rate > 0)
      arrive(start_);
    else
      for (int64_t i = 0; i < options_.streams; ++i) next();
    client_.run();
  }
  const std::vector<Timing>& timings() const { return timings_; }
  double seconds() const { return end_ - start_; }

 private:
  bool is_over() const {
    return (options_.requests > 0 && begun_ >= options_.requests) ||
           (options_.seconds > 0 && client_.now() - start_ >= options_.seconds);
  }
  // Times are laid out from the beginning, so that a late start does not delay those behind it.
  void arrive(double when) {
    client_.at(when, [this, when] {
      if (is_over()) return;
      begin([] {});
      arrive(when + std::exponential_distribution(options_.rate)(random_));
    });
  }
  void next() {
    if (!is_over()) begin([this] { next(); });
  }
  void begin(std::function<void()> after) {
    ++begun_;
    Json body =
        asking_.body(words(asking_.words_for(draw(options_.prompt, random_)), random_), draw(options_.answer, random_));
    body["stream"] = true;
    body["stream_options"] = {{"include_usage", true}};
    client_.start(kPath, body.dump(), [this, after = std::move(after)](Timing timing) {
      end_ = client_.now();
      const bool failed = !timing.fault.empty();
      timings_.push_back(std::move(timing));
      if (failed)
        client_.at(end_ + kPause, after);
      else
        after();
    });
  }

  LoadClient& client_;
  LoadOptions options_;
  Asking asking_;
  Random random_;
  double start_, end_ = 0;
  int64_t begun_ = 0;
  std::vector<Timing> timings_;
};

// The smallest value that at least this share of them does not exceed.
double quantile(const std::vector<double>& sorted, double share) {
  const auto rank = static_cast<size_t>(std::ceil(share * static_cast<double>(sorted.size())));
  return sorted[std::clamp(rank, size_t{1}, sorted.size()) - 1];
}

Json times_json(const char* kind, std::vector<double> seconds) {
  std::ranges::sort(seconds);
  double sum = 0;
  for (double& value : seconds) sum += value *= 1e3;
  Json shares = Json::array();
  for (int i = 0; i <= 20; ++i) shares.push_back(quantile(seconds, i / 20.0));
  return {{"kind", kind},
          {"mean_ms", sum / static_cast<double>(seconds.size())},
          {"p50_ms", quantile(seconds, 0.5)},
          {"p90_ms", quantile(seconds, 0.9)},
          {"p99_ms", quantile(seconds, 0.99)},
          {"most_ms", seconds.back()},
          {"shares_ms", std::move(shares)}};
}

Json summary(const std::vector<Timing>& timings, double seconds) {
  std::vector<double> first, gaps, whole;
  std::map<std::string, int64_t> faults;
  int64_t prompt = 0, answer = 0;
  for (const Timing& timing : timings) {
    if (!timing.fault.empty()) {
      ++faults[timing.fault];
      continue;
    }
    first.push_back(timing.first - timing.sent);
    whole.push_back(timing.end - timing.sent);
    gaps.insert(gaps.end(), timing.gaps.begin(), timing.gaps.end());
    prompt += std::max(timing.prompt_tokens, int64_t{0});
    answer += timing.answer_tokens < 0 ? timing.pieces : timing.answer_tokens;
  }
  if (first.empty()) fail("no request was answered: {}", faults.empty() ? "none began" : faults.begin()->first);
  const auto answered = static_cast<double>(first.size());
  Json times = Json::array({times_json("first token", std::move(first)), times_json("request", std::move(whole))});
  if (!gaps.empty()) times.push_back(times_json("gap", std::move(gaps)));
  Json out = {{"requests", timings.size()}, {"failed", 0}, {"faults", Json::array()}, {"seconds", seconds}};
  for (const auto& [fault, count] : faults) {
    out["failed"] = out["failed"].get<int64_t>() + count;
    out["faults"].push_back({{"fault", fault}, {"count", count}});
  }
  out["prompt_tokens"] = prompt;
  out["answer_tokens"] = answer;
  out["tokens_per_s"] = static_cast<double>(answer) / seconds;
  out["requests_per_s"] = answered / seconds;
  out["times"] = std::move(times);
  return out;
}

// "64" or "16-128".
std::string read_lengths(const std::string& text, Lengths& out) {
  const char *begin = text.data(), *end = begin + text.size();
  const auto low = std::from_chars(begin, end, out.low);
  auto high = low;
  out.high = out.low;
  if (low.ec == std::errc() && low.ptr != end && *low.ptr == '-') high = std::from_chars(low.ptr + 1, end, out.high);
  const bool read = low.ec == std::errc() && high.ec == std::errc() && high.ptr == end;
  if (!read || out.low < 1 || out.high < out.low || out.high > kMostTokens)
    return fmt::format("expected a length or two as in 16-128, found '{}'", text);
  return "";
}

void add_lengths(CLI::App& app, const char* flag, Lengths& lengths, const char* text) {
  app.add_option_function<std::string>(
         flag,
         [flag, &lengths](const std::string& value) {
           if (const std::string fault = read_lengths(value, lengths); !fault.empty())
             throw CLI::ValidationError(flag, fault);
         },
         text)
      ->default_str(fmt::format("{}", lengths.low));
}

}  // namespace

void add_load_options(CLI::App& app, LoadOptions& options) {
  app.add_option("--serve", options.url, "load this OpenAI-compatible server: http(s)://host:port");
  app.add_option("--model", options.model, "of --serve, as the next ones: what to ask for; else the first it lists");
  app.add_option("--api-key", options.key, "key to bring");
  auto* streams = app.add_option("--streams", options.streams, "requests at a time, each followed by the next")
                      ->check(CLI::Range(1, 65536))
                      ->capture_default_str();
  app.add_option("--rate", options.rate, "requests a second at random times (Poisson), however many run")
      ->check(CLI::Range(1e-3, 1e6))
      ->excludes(streams);
  app.add_option("--requests", options.requests, "so many; 100 where there is no --seconds")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 32));
  app.add_option("--seconds", options.seconds, "no request begins later")->check(CLI::Range(0.1, 1e6));
  add_lengths(app, "--prompt-tokens", options.prompt, "about so many in each prompt, or A-B: between");
  add_lengths(app, "--answer-tokens", options.answer, "so many in each answer, or A-B: between");
  app.add_option("--seed", options.seed, "of texts, lengths and times")->check(whole_number())->capture_default_str();
}

Json measure_load(const LoadOptions& options) {
  Endpoint endpoint = parse_endpoint(options.url);
  endpoint.key = options.key;
  LoadClient client(endpoint);
  Random random(options.seed);
  const Asking asking = ask_first(client, options, random);
  Load load(client, options, asking, random);
  load.run();
  Json out = {{"serve", options.url},
              {"model", asking.model},
              {"load",
               {{"streams", options.rate > 0 ? 0 : options.streams},
                {"rate", options.rate},
                {"prompt_tokens", {options.prompt.low, options.prompt.high}},
                {"answer_tokens", {options.answer.low, options.answer.high}},
                {"whole_answers", asking.ignores_end},
                {"seed", options.seed}}}};
  out.update(with_context("--serve " + options.url, [&] { return summary(load.timings(), load.seconds()); }));
  return out;
}

void print_load(const Json& result) {
  const Json& load = result["load"];
  const auto range = [&](const char* name) {
    const int64_t low = load[name][0].get<int64_t>(), high = load[name][1].get<int64_t>();
    return low == high ? fmt::format("{}", low) : fmt::format("{} to {}", low, high);
  };
  const double rate = load["rate"].get<double>();
  fmt::print(
      "{} at {}: {}, prompts of {} tokens, answers of {}{}\n", result["model"].get<std::string>(),
      result["serve"].get<std::string>(),
      rate > 0 ? fmt::format("{:g} requests/s", rate) : fmt::format("{} streams", load["streams"].get<int64_t>()),
      range("prompt_tokens"), load["whole_answers"].get<bool>() ? "" : "at most ", range("answer_tokens"));
  fmt::print("{} requests in {:.2f} s, {} failed: {:.2f} requests/s, {:.1f} tokens/s\n",
             result["requests"].get<int64_t>(), result["seconds"].get<double>(), result["failed"].get<int64_t>(),
             result["requests_per_s"].get<double>(), result["tokens_per_s"].get<double>());
  for (const Json& fault : result["faults"])
    fmt::print("  {} times {}\n", fault["count"].get<int64_t>(), fault["fault"].get<std::string>());
  fmt::print("{:<16} {:>10} {:>10} {:>10} {:>10} {:>10}\n", "milliseconds", "mean", "p50", "p90", "p99", "most");
  for (const Json& row : result["times"])
    fmt::print("{:<16} {:>10.2f} {:>10.2f} {:>10.2f} {:>10.2f} {:>10.2f}\n", row["kind"].get<std::string>(),
               row["mean_ms"].get<double>(), row["p50_ms"].get<double>(), row["p90_ms"].get<double>(),
               row["p99_ms"].get<double>(), row["most_ms"].get<double>());
}

}  // namespace braid::cli
