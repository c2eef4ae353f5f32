// SPDX-License-Identifier: Apache-2.0
#include "base/json.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace braid {

TEST(Json, FaultsNameTheFile) {
  try {
    parse_json("{\"a\": }", "config.json");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.message().substr(0, 12), "config.json:");
  }
  EXPECT_THROW(parse_json(std::string(100000, '['), "x"), Error);
}

TEST(Json, PythonNumbersAreRead) {
  const Json value = parse_json(R"({"a": NaN, "b": -Infinity, "s": "NaN \" Infinity"})", "x");
  EXPECT_TRUE(value["a"].is_null());
  EXPECT_LT(value["b"].get<double>(), -1e300);
  EXPECT_EQ(value["s"], "NaN \" Infinity");
}

}  // namespace braid
