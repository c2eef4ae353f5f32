// SPDX-License-Identifier: Apache-2.0
#include "server/metrics.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

namespace braid::server {
namespace {

void append_head(std::string& out, const char* name, const char* help, const char* type) {
  fmt::format_to(std::back_inserter(out), "# HELP {0} {1}\n# TYPE {0} {2}\n", name, help, type);
}

template <typename Value>
void append_gauge(std::string& out, const char* name, const char* help, Value value) {
  append_head(out, name, help, "gauge");
  fmt::format_to(std::back_inserter(out), "{} {}\n", name, value);
}

std::string label(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += c == '\n' ? ' ' : c;
  }
  return out;
}

}  // namespace

void Metrics::Histogram::add(double value) {
  ++counts[static_cast<size_t>(std::ranges::lower_bound(kBounds, value) - kBounds.begin())];
  sum += value;
}

void Metrics::Histogram::append(std::string& out, const char* name, const char* help) const {
  append_head(out, name, help, "histogram");
  uint64_t below = 0;
  for (size_t i = 0; i < kBounds.size(); ++i) {
    below += counts[i];
    fmt::format_to(std::back_inserter(out), "{}_bucket{{le=\"{}\"}} {}\n", name, kBounds[i], below);
  }
  below += counts.back();
  fmt::format_to(std::back_inserter(out), "{0}_bucket{{le=\"+Inf\"}} {1}\n{0}_sum {2}\n{0}_count {1}\n", name, below,
                 sum);
}

void Metrics::add(const CallRecord& record) {
  const std::lock_guard lock(mutex_);
  ++requests_[{record.path, record.status, record.key}];
  if (record.usage.prompt == 0) return;
  TokenUsage& tokens = tokens_[record.key];
  tokens.prompt += record.usage.prompt;
  tokens.cached += record.usage.cached;
  tokens.completion += record.usage.completion;
  tokens.reasoning += record.usage.reasoning;
  seconds_.add(record.seconds);
  if (record.first_token > 0) first_token_.add(record.first_token);
  if (record.usage.completion > 1 && record.last_token > record.first_token)
    gap_.add((record.last_token - record.first_token) / static_cast<double>(record.usage.completion - 1));
}

std::string Metrics::text(const EngineLoop::Load& load) const {
  std::string out;
  const std::lock_guard lock(mutex_);
  append_head(out, "braid_requests_total", "Requests that are over; status 499: the client went away.", "counter");
  for (const auto& [what, count] : requests_) {
    const auto& [path, status, key] = what;
    fmt::format_to(std::back_inserter(out), "braid_requests_total{{path=\"{}\",status=\"{}\",key=\"{}\"}} {}\n",
                   label(path), status, label(key), count);
  }
  append_head(out, "braid_tokens_total", "Tokens by kind; cached ones are among the prompt's.", "counter");
  for (const auto& [key, tokens] : tokens_) {
    const std::pair<const char*, int64_t> kinds[] = {{"prompt", tokens.prompt},
                                                     {"cached", tokens.cached},
                                                     {"completion", tokens.completion},
                                                     {"reasoning", tokens.reasoning}};
    for (const auto& [kind, count] : kinds)
      fmt::format_to(std::back_inserter(out), "braid_tokens_total{{kind=\"{}\",key=\"{}\"}} {}\n", kind, label(key),
                     count);
  }
  seconds_.append(out, "braid_request_seconds", "From a request's arrival to the end of its answer.");
  first_token_.append(out, "braid_first_token_seconds", "From a request's arrival to its first token.");
  gap_.append(out, "braid_token_gap_seconds", "Mean time between the tokens of an answer.");
  append_gauge(out, "braid_sequences_running", "Sequences in the batch.", load.engine.running);
  append_gauge(out, "braid_sequences_waiting", "Sequences that wait for a place.", load.engine.waiting);
  append_gauge(out, "braid_requests_unfinished", "Requests given to the engine and not ended.", load.unfinished);
  append_gauge(out, "braid_state_pages", "Pages of state.", load.pages);
  append_gauge(out, "braid_state_pages_free", "Pages of state that nobody holds.", load.free_pages);
  append_gauge(out, "braid_state_slots", "Slots of recurrent state.", load.slots);
  append_gauge(out, "braid_state_slots_free", "Slots of recurrent state that nobody holds.", load.free_slots);
  append_head(out, "braid_preemptions_total", "Sequences that had to give their state back.", "counter");
  fmt::format_to(std::back_inserter(out), "braid_preemptions_total {}\n", load.engine.counts.preemptions);
  const PrefixCache::Stats& cache = load.engine.cache;
  append_gauge(out, "braid_cache_bytes", "Memory that the prefix cache holds.", cache.bytes);
  append_gauge(out, "braid_cache_budget_bytes", "Memory that the prefix cache may hold.", cache.budget);
  append_gauge(out, "braid_cache_states", "States that the prefix cache holds.", cache.marks);
  append_head(out, "braid_cache_reuse_total", "Requests that began, by why not more came from the cache.", "counter");
  for (size_t i = 0; i < load.engine.counts.limits.size(); ++i)
    fmt::format_to(std::back_inserter(out), "braid_cache_reuse_total{{limit=\"{}\"}} {}\n",
                   name_of(static_cast<CacheLimit>(i)), load.engine.counts.limits[i]);
  return out;
}

}  // namespace braid::server
