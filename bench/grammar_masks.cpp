// Times of grammars over a real vocabulary: compiling a schema, and masks at every position of JSON documents.
// SPDX-License-Identifier: Apache-2.0
#include <ctime>

#include <algorithm>
#include <cstdio>
#include <string>
#include <vector>

#include "text/grammar/matcher.h"
#include "text/grammar/random_schema_test.h"
#include "text/grammar/structure.h"
#include "text/tokenizer/tokenizer.h"

namespace braid {
namespace {

// Of this thread, so that a busy machine does not count.
double seconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

Json thirty_properties() {
  const std::vector<Json> kinds{
      {{"type", "string"}},
      {{"type", "integer"}, {"minimum", 0}, {"maximum", 120}},
      {{"type", "array"}, {"items", {{"type", "string"}}}, {"maxItems", 10}},
      {{"type", "string"}, {"maxLength", 40}},
      {{"enum", Json::array({"low", "middle", "high"})}},
      {{"type", "number"}},
      {{"type", "object"},
       {"properties", {{"city", {{"type", "string"}}}, {"zip", {{"type", "string"}, {"pattern", "^[0-9]{5}$"}}}}},
       {"required", Json::array({"city"})},
       {"additionalProperties", false}},
      {{"type", "string"}, {"format", "date-time"}},
      {{"type", "boolean"}},
      {{"anyOf", Json::array({{{"type", "string"}}, {{"type", "null"}}})}},
  };
  Json schema{
      {"type", "object"}, {"properties", Json::object()}, {"required", Json::array()}, {"additionalProperties", false}};
  for (size_t i = 0; i < 30; ++i) {
    const std::string name = "property_" + std::to_string(i);
    schema["properties"][name] = kinds[i % kinds.size()];
    schema["required"].push_back(name);
  }
  return schema;
}

Json document(int variant) {
  const std::vector<Json> kinds{"A sentence, with words and 'quotes' \"inside\" - number " + std::to_string(variant),
                                17 + variant,
                                Json::array({"first", "second one", "the third"}),
                                "no more than forty characters",
                                "middle",
                                3.25 + variant,
                                {{"city", "Zürich"}, {"zip", "80001"}},
                                "2024-02-29T12:30:00Z",
                                variant % 2 == 0,
                                variant % 3 == 0 ? Json(nullptr) : Json("日本語のテキスト and more text\nwith lines")};
  Json made = Json::object();
  for (size_t i = 0; i < 30; ++i) made["property_" + std::to_string(i)] = kinds[i % kinds.size()];
  return made;
}

void print(const char* name, std::vector<double> times) {
  std::sort(times.begin(), times.end());
  const auto at = [&](double share) {
    return 1e6 * times[static_cast<size_t>(share * static_cast<double>(times.size() - 1))];
  };
  std::printf("%-34s %6zu masks, us: median %.1f, p99 %.1f, most %.1f\n", name, times.size(), at(0.5), at(0.99),
              at(1.0));
}

// Masks at every position of the text as the tokenizer cuts it. False if the text is not taken.
bool measure(const std::shared_ptr<const Grammar>& grammar, const std::vector<int32_t>& ids,
             std::vector<double>& times) {
  std::vector<int32_t> words(static_cast<size_t>(grammar->trie().highest_id()) / 32 + 1);
  Matcher matcher(grammar);
  for (const int32_t id : ids) {
    const double begin = seconds();
    matcher.mask(words);
    times.push_back(seconds() - begin);
    if (!has_bit(words, id) || !matcher.advance(id)) return false;
  }
  return matcher.may_end();
}

int run(const std::string& folder) {
  const Tokenizer tokenizer = Tokenizer::load(folder);
  double begin = seconds();
  const auto trie = TokenTrie::of(tokenizer, {});
  std::printf("vocabulary of %d tokens, %u nodes, tree in %.0f ms\n", tokenizer.size(), trie->nodes(),
              1e3 * (seconds() - begin));
  const Structure structure{StructureKind::Json, thirty_properties()};
  compile_structured({StructureKind::Regex, "a"}, trie);
  begin = seconds();
  const auto grammar = compile_structured(structure, trie);
  std::printf("schema of 30 properties: compiled in %.1f ms, %zu states\n", 1e3 * (seconds() - begin),
              grammar->automaton().states());
  GrammarCache cache(trie);
  cache.get(structure);
  begin = seconds();
  cache.get(structure);
  std::printf("the same from the cache: %.3f ms\n", 1e3 * (seconds() - begin));
  std::vector<double> first, later, random_first;
  for (int variant = 0; variant < 20; ++variant) {
    const std::vector<int32_t> ids =
        tokenizer.encode(document(variant).dump(variant % 2 == 0 ? -1 : 2), {.add_special_tokens = false});
    if (!measure(grammar, ids, variant < 2 ? first : later)) return std::printf("a document is not taken\n"), 1;
  }
  print("first documents (nothing cached)", first);
  print("later documents", later);
  TestRandom random{std::mt19937_64(1)};
  RandomSchemas schemas(random);
  double compile = 0;
  for (int i = 0; i < 50; ++i) {
    const Json schema = schemas.document();
    begin = seconds();
    const auto other = compile_structured({StructureKind::Json, schema}, trie);
    compile = std::max(compile, seconds() - begin);
    for (int j = 0; j < 4; ++j) {
      const std::string text = schemas.value(schema, schema).dump(j % 2 == 0 ? -1 : 2);
      if (!measure(other, tokenizer.encode(text, {.add_special_tokens = false}), random_first))
        return std::printf("not taken: %s\n", text.c_str()), 1;
    }
  }
  print("50 random schemas, 4 documents each", random_first);
  std::printf("slowest of them compiled in %.1f ms\n", 1e3 * compile);
  return 0;
}

}  // namespace
}  // namespace braid

int main(int count, char** arguments) {
  if (count == 2) return braid::run(arguments[1]);
  std::fprintf(stderr, "usage: grammar_masks FOLDER (with a tokenizer.json)\n");
  return 2;
}
