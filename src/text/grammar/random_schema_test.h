// Random JSON schemas with bounded values, and random values of them made without any grammar.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "base/json.h"
#include "text/grammar/vocabularies_test.h"

namespace braid {

class RandomSchemas {
 public:
  explicit RandomSchemas(TestRandom& random) : random_(random) {}

  // The root is an object; references go to $defs, which may call themselves.
  Json document() {
    Json schema = object(0);
    schema["$defs"] = {
        {"tree",
         {{"type", "object"},
          {"properties", {{"label", {{"type", "string"}, {"maxLength", 3}}}, {"left", {{"$ref", "#/$defs/tree"}}}}},
          {"required", Json::array({"label"})},
          {"additionalProperties", false}}}};
    return schema;
  }

  // A value that the schema allows, with properties in its order. `root` has the definitions.
  Json value(const Json& schema, const Json& root, int depth = 0) {
    if (schema.contains("$ref")) return value(root["$defs"]["tree"], root, depth + 1);
    if (schema.contains("const")) return schema["const"];
    if (schema.contains("enum")) return pick(schema["enum"]);
    if (schema.contains("anyOf")) return value(pick(schema["anyOf"]), root, depth + 1);
    const std::string type = schema["type"];
    if (type == "null") return nullptr;
    if (type == "boolean") return random_.below(2) == 0;
    if (type == "integer") return between(schema.value("minimum", -50), schema.value("maximum", 50));
    if (type == "number") return between(schema.value("minimum", -8) * 4, schema.value("maximum", 8) * 4) / 4.0;
    if (type == "string") return string(schema);
    Json made = type == "array" ? Json::array() : Json::object();
    if (type == "array") {
      for (int64_t left = between(schema["minItems"], schema["maxItems"]); left > 0; --left) {
        made.push_back(value(schema["items"], root, depth + 1));
      }
      return made;
    }
    for (const auto& [name, property] : schema["properties"].items()) {
      const Json& required = schema["required"];
      const bool needed = std::find(required.begin(), required.end(), Json(name)) != required.end();
      if (needed || (depth < 6 && random_.below(2) == 0)) made[name] = value(property, root, depth + 1);
    }
    return made;
  }

 private:
  int64_t between(int64_t least, int64_t most) {
    return least + static_cast<int64_t>(random_.below(static_cast<uint64_t>(most - least + 1)));
  }
  const Json& pick(const Json& list) { return list[random_.below(list.size())]; }

  Json string(const Json& schema) {
    if (schema.contains("examples")) return pick(schema["examples"]);
    static const std::vector<std::string> kCharacters{"a", "B", "7", " ", "\"", "\\", "\n", "\t", "\x01",
                                                      "/", "é", "€", "😀", "{",  "}",  ",",  ":"};
    std::string text;
    for (int64_t left = between(schema.value("minLength", 0), schema.value("maxLength", 12)); left > 0; --left) {
      text += kCharacters[random_.below(kCharacters.size())];
    }
    return text;
  }

  Json object(int depth) {
    static const std::vector<std::string> kNames{"id", "name", "a", "ab", "value \"x\"", "zeit", "größe", "list", "$k"};
    Json schema{{"type", "object"}, {"properties", Json::object()}, {"required", Json::array()}};
    for (const std::string& name : kNames) {
      if (random_.below(2) == 0) continue;
      schema["properties"][name] = this->schema(depth + 1);
      if (random_.below(2) == 0) schema["required"].push_back(name);
    }
    schema["additionalProperties"] = false;
    return schema;
  }

  Json schema(int depth) {
    switch (random_.below(depth < 3 ? 12 : 8)) {
      case 0:
        return {{"type", "integer"}, {"minimum", between(-2000, 0)}, {"maximum", between(0, 130)}};
      case 1:
        return {{"type", "number"}, {"minimum", between(-20, 0)}, {"maximum", between(1, 9)}};
      case 2:
        return {{"type", "string"}, {"minLength", between(0, 3)}, {"maxLength", between(3, 90)}};
      case 3:
        return {{"type", "string"}, {"maxLength", 8}};
      case 4:
        return {{"enum", Json::array({"red", "gr\"een", 3, nullptr, true, Json::array({1, "x"})})}};
      case 5:
        return {{"type", "boolean"}};
      case 6:
        return fixed_string();
      case 7:
        return {{"const", random_.below(2) == 0 ? Json("fixed") : Json(-1.5)}};
      case 8:
        return {
            {"type", "array"}, {"items", schema(depth + 1)}, {"minItems", between(0, 2)}, {"maxItems", between(2, 5)}};
      case 9:
        return {{"anyOf", Json::array({schema(depth + 1), schema(depth + 1), {{"type", "null"}}})}};
      case 10:
        return {{"$ref", "#/$defs/tree"}};
      default:
        return object(depth + 1);
    }
  }

  Json fixed_string() {
    switch (random_.below(5)) {
      case 0:
        return {{"type", "string"}, {"format", "date"}, {"examples", Json::array({"2024-02-29", "1999-12-31"})}};
      case 1:
        return {{"type", "string"},
                {"format", "date-time"},
                {"examples", Json::array({"2024-02-29T23:59:59Z", "1999-12-31T00:00:00.123+05:30"})}};
      case 2:
        return {{"type", "string"},
                {"format", "uuid"},
                {"examples", Json::array({"123e4567-e89b-12d3-a456-426614174000"})}};
      case 3:
        return {{"type", "string"},
                {"pattern", "^[a-z]{2,5}-\\d+$"},
                {"maxLength", 12},
                {"examples", Json::array({"ab-1", "abcde-123456"})}};
      default:
        return {{"type", "string"}, {"format", "email"}, {"examples", Json::array({"a.b@example.com"})}};
    }
  }

  TestRandom& random_;
};

}  // namespace braid
