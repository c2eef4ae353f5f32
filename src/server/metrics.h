// Metrics: what the server counts, in the text format that Prometheus reads.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <tuple>

#include "server/chat/answer.h"
#include "server/engine_loop.h"

namespace braid::server {

// One request, when it is over.
struct CallRecord {
  std::string id, method, path, key;  // path: of the route; key: the name of the key, empty without keys
  int status = 0;                     // 499: the client went away first
  TokenUsage usage;
  double seconds = 0;
  double first_token = 0, last_token = 0;  // seconds after the start; 0: there was none
};

// Any thread.
class Metrics {
 public:
  void add(const CallRecord& record);
  std::string text(const EngineLoop::Load& load) const;

 private:
  struct Histogram {
    static constexpr std::array kBounds{0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0};
    std::array<uint64_t, kBounds.size() + 1> counts{};
    double sum = 0;
    void add(double value);
    void append(std::string& out, const char* name, const char* help) const;
  };
  mutable std::mutex mutex_;
  std::map<std::tuple<std::string, int, std::string>, uint64_t> requests_;  // path, status, key
  std::map<std::string, TokenUsage> tokens_;                                // by key
  Histogram seconds_, first_token_, gap_;
};

}  // namespace braid::server
