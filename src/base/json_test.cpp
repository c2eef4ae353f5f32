// SPDX-License-Identifier: Apache-2.0
#include "base/json.h"

#include <gtest/gtest.h>

#include <chrono>
#include <random>

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

// Like Json, with the map that finds by walking over all members.
using Plain = nlohmann::ordered_json;

TEST(Json, ObjectsOfAnySizeKeepOrderThroughEveryChange) {
  std::mt19937 rng(1);
  for (const int most : {3, 16, 17, 18, 40, 300}) {
    Json value = Json::object();
    Plain plain = Plain::object();
    for (int step = 0; step < 2000; ++step) {
      const std::string key = "k" + std::to_string(rng() % static_cast<unsigned>(most));
      const int number = static_cast<int>(rng() % 1000);
      switch (rng() % 8) {
        case 0:
          EXPECT_EQ(value.erase(key), plain.erase(key));
          break;
        case 1:
          EXPECT_EQ(value.contains(key), plain.contains(key));
          EXPECT_EQ(value.value(key, -1), plain.value(key, -1));
          break;
        case 2:
          EXPECT_EQ(value.emplace(key, number).second, plain.emplace(key, number).second);
          break;
        case 3:
          if (step % 50 == 0) value = Json(std::as_const(value)), value = Json::parse(value.dump());
          break;
        case 4:
          if (value.contains(key)) value.erase(value.find(key)), plain.erase(plain.find(key));
          break;
        case 5:
          if (step % 100 == 0) value.clear(), plain.clear();
          break;
        case 6: {
          Json moved = std::move(value);
          value = std::move(moved);
          value.update({{key, number}}), plain.update({{key, number}});
          break;
        }
        default:
          value[key] = number, plain[key] = number;
      }
      ASSERT_EQ(value.dump(), plain.dump());
    }
  }
}

// Checkpoints of mixtures of experts name this many tensors. Walking over all names for each would take half a minute.
TEST(Json, LargeObjectsAreReadInLinearTime) {
  std::string text = "{";
  for (int i = 0; i < 100'000; ++i) text += (i ? ",\"name" : "\"name") + std::to_string(i) + "\":" + std::to_string(i);
  const auto start = std::chrono::steady_clock::now();
  const Json value = parse_json(text + "}", "x");
  EXPECT_EQ(value.at("name99999"), 99'999);
  EXPECT_EQ(value.size(), 100'000u);
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(5));
}

}  // namespace braid
