// SPDX-License-Identifier: Apache-2.0
#include "text/dialects/call_format.h"

#include "base/error.h"

namespace braid {
namespace {

// A call of one function, as models are shown to write it.
Json call_tag(ToolForm form, const Json& function) {
  const auto& name = function.at("name").get_ref<const std::string&>();
  const auto found = function.find("parameters");
  const Json schema = found == function.end() || found->is_null() ? Json{{"type", "object"}} : *found;
  if (form == ToolForm::Xml)
    return {{"type", "tag"},
            {"begin", fmt::format("<tool_call>\n<function={}>\n", name)},
            {"content", {{"type", "xml_parameters"}, {"json_schema", schema}}},
            {"end", "</function>\n</tool_call>"}};
  return {{"type", "tag"},
          {"begin", fmt::format("<tool_call>\n{{\"name\": {}, \"arguments\": ", Json(name).dump())},
          {"content", {{"type", "json_schema"}, {"json_schema", schema}}},
          {"end", "}\n</tool_call>"}};
}

}  // namespace

Json call_format(ToolForm form, const Json& tools, const CallRule& rule) {
  if (form == ToolForm::None) fail("the model's chat template has no form for tool calls");
  Json tags = Json::array();
  for (const Json& tool : tools) {
    const Json& function = tool.at("function");
    if (rule.name.empty() || function.at("name") == rule.name) tags.push_back(call_tag(form, function));
  }
  if (tags.empty()) fail("there is no tool '{}'", rule.name);
  Json format = {{"type", rule.required ? "tags_with_separator" : "triggered_tags"},
                 {"tags", std::move(tags)},
                 {"at_least_one", rule.required},
                 {"stop_after_first", !rule.parallel}};
  if (rule.required)
    format["separator"] = "\n";
  else
    format["triggers"] = Json::array({"<tool_call>"});
  return format;
}

}  // namespace braid
