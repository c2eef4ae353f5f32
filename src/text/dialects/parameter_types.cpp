// SPDX-License-Identifier: Apache-2.0
#include "text/dialects/parameter_types.h"

#include "text/dialects/json_scanner.h"

namespace braid {
namespace {

constexpr int kDepth = 16;  // of schemas inside schemas that concern one value

unsigned bits_of_name(const Json& name) {
  if (name == "string") return ValueTypes::String;
  if (name == "number" || name == "integer") return ValueTypes::Number;
  if (name == "boolean") return ValueTypes::Boolean;
  if (name == "object") return ValueTypes::Object;
  if (name == "array") return ValueTypes::Array;
  return name == "null" ? ValueTypes::Null : 0u;
}

unsigned bits_of_value(const Json& value) {
  if (value.is_string()) return ValueTypes::String;
  if (value.is_number()) return ValueTypes::Number;
  if (value.is_boolean()) return ValueTypes::Boolean;
  if (value.is_object()) return ValueTypes::Object;
  return value.is_array() ? ValueTypes::Array : ValueTypes::Null;
}

const Json* referred(const Json& reference, const Json& root) {
  if (!reference.is_string()) return nullptr;
  const std::string& text = reference.get_ref<const std::string&>();
  if (!text.starts_with("#")) return nullptr;
  try {
    return &root.at(Json::json_pointer(text.substr(1)));
  } catch (const Json::exception&) {
    return nullptr;
  }
}

unsigned bits_of(const Json& schema, const Json& root, int depth) {
  if (!schema.is_object() || depth == 0) return 0;
  unsigned bits = 0;
  if (const auto type = schema.find("type"); type != schema.end()) {
    if (!type->is_array()) return bits_of_name(*type);
    for (const Json& name : *type) bits |= bits_of_name(name);
    return bits;
  }
  if (const auto value = schema.find("const"); value != schema.end()) return bits_of_value(*value);
  if (const auto values = schema.find("enum"); values != schema.end() && values->is_array()) {
    for (const Json& value : *values) bits |= bits_of_value(value);
    return bits;
  }
  if (const auto reference = schema.find("$ref"); reference != schema.end()) {
    const Json* target = referred(*reference, root);
    return target ? bits_of(*target, root, depth - 1) : 0;
  }
  for (const char* word : {"anyOf", "oneOf", "allOf"}) {
    const auto choices = schema.find(word);
    if (choices == schema.end() || !choices->is_array()) continue;
    for (const Json& choice : *choices) bits |= bits_of(choice, root, depth - 1);
  }
  if (bits == 0 && schema.contains("properties")) bits = ValueTypes::Object;
  if (bits == 0 && schema.contains("items")) bits = ValueTypes::Array;
  return bits;
}

// The type of what is valid JSON, by its first character.
unsigned bits_of_text(std::string_view text) {
  switch (text.front()) {
    case '"':
      return ValueTypes::String;
    case '{':
      return ValueTypes::Object;
    case '[':
      return ValueTypes::Array;
    case 't':
    case 'f':
      return ValueTypes::Boolean;
    case 'n':
      return ValueTypes::Null;
    default:
      return ValueTypes::Number;
  }
}

}  // namespace

ValueTypes types_of_schema(const Json& schema, const Json& root) { return {bits_of(schema, root, kDepth)}; }

std::string typed_value(std::string_view text, ValueTypes types) {
  if (!types.only_string()) {
    if (const auto value = mended_json(text)) {
      const unsigned type = bits_of_text(*value);
      if (types.bits == 0 || (types.bits & type) != 0) return *value;
    }
  }
  std::string out = "\"";
  append_json_escaped(text, out);
  return out + "\"";
}

ParameterTypes::ParameterTypes(const Json& tools) {
  if (!tools.is_array()) return;
  for (const Json& tool : tools) {
    const Json& function = tool.is_object() && tool.contains("function") ? tool.at("function") : tool;
    if (!function.is_object() || !function.contains("name") || !function.at("name").is_string()) continue;
    auto& parameters = functions_[function.at("name").get<std::string>()];
    const auto schema = function.find("parameters");
    if (schema == function.end() || !schema->is_object()) continue;
    const auto properties = schema->find("properties");
    if (properties == schema->end() || !properties->is_object()) continue;
    for (const auto& [key, value] : properties->items()) parameters[key] = types_of_schema(value, *schema);
  }
}

ValueTypes ParameterTypes::of(const std::string& function, const std::string& parameter) const {
  const auto found = functions_.find(function);
  if (found == functions_.end()) return {};
  const auto type = found->second.find(parameter);
  return type == found->second.end() ? ValueTypes{} : type->second;
}

}  // namespace braid
