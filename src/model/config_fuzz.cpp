// Any bytes as config.json: read into a spec, or refused with an Error.
// SPDX-License-Identifier: Apache-2.0
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/error.h"
#include "base/log.h"
#include "model/registry.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace braid;
  static const bool quiet = (log::start("off"), true);
  (void)quiet;
  try {
    const Json config = parse_json({reinterpret_cast<const char*>(data), size}, "config.json");
    WeightPlan plan(nullptr, config);
    ModelSpec model = read_model(config, "config.json", plan);
    claim_state(model, DType::BF16);
    describe(model);
  } catch (const Error&) {
  }
  return 0;
}
