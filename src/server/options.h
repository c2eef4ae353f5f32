// How the server is set up: one struct, filled by the command line.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "api/model.h"
#include "server/http/server.h"

namespace braid::server {

struct NamedKey {
  std::string name, key;
};

struct ServeOptions {
  OpenOptions open;
  HttpOptions http;
  std::vector<std::string> names;      // that requests may call the model by; none: the folder's name
  std::vector<NamedKey> keys;          // none: everyone may ask
  std::string cors_origin;             // the origins that browsers may ask from, "*" or one; empty: none
  SamplingOverrides sampling;          // over the model's own defaults, and under what a request says
  std::optional<int64_t> max_tokens;   // of an answer, where a request does not say
  std::string reasoning = "auto";      // auto, none or think: how thoughts are marked
  std::string tool_form = "auto";      // auto, none, json or xml: how calls are written
  std::optional<bool> think;           // where requests do not say
  double memory_share = 0.5;           // of the memory that is free, for the state of sequences
  int32_t parallel = 32;               // sequences that run at once
  int64_t step_tokens = 0;             // rows of a step; 0: as many as the device uses well
  int32_t queue = 256;                 // more that wait
  std::string cache_folder;            // where the prefix cache survives a restart; empty: nowhere
  std::optional<int64_t> cache_bytes;  // of the prefix cache; absent: the engine's choice; 0: no cache
  std::chrono::seconds drain{30};      // for running answers when the server is told to go
};

}  // namespace braid::server
