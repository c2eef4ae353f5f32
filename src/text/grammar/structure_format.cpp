// Formats are read recursively; schemas within them are read by their own front end.
// SPDX-License-Identifier: Apache-2.0
#include "text/grammar/structure_format.h"

#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "text/grammar/free_text.h"
#include "text/grammar/gbnf.h"
#include "text/grammar/regex.h"
#include "text/grammar/schema/xml_parameters.h"
#include "text/grammar/spelling.h"

namespace braid {
namespace {

constexpr int kDeepest = 50;
constexpr size_t kMostTriggers = 64;

class FormatReader {
 public:
  FormatReader(Productions& productions, const FormatContext& context) : p_(productions), context_(context) {}

  ExpressionId read(const Json& format, const std::string& path, int depth = 0) {
    if (!format.is_object()) fail("{}: expected an object", path);
    if (depth > kDeepest) fail("{}: nested too deeply", path);
    if (!format.contains("type") && format.contains("structures")) return read_structures(format, path);
    const std::string type = word(format, "type", path);
    if (type == "structural_tag") return read(member(format, "format", path), path + ".format", depth + 1);
    if (type == "const_string") return literal(word(format, "value", path));
    if (type == "json_schema") return schema(member(format, "json_schema", path), path + ".json_schema");
    if (type == "xml_parameters") {
      return with_context(path + ".json_schema", [&] {
        return xml_parameters_expression(member(format, "json_schema", path), p_, context_.options);
      });
    }
    if (type == "regex") {
      return with_context(path + ".pattern", [&] {
        return Spelling(p_, SpelledAs::Text).pattern(parse_regex(word(format, "pattern", path), RegexScope::Whole));
      });
    }
    if (type == "grammar") {
      return with_context(path + ".grammar", [&] { return read_gbnf(word(format, "grammar", path), p_); });
    }
    if (type == "any_text") return free_text();
    if (type == "sequence") return p_.sequence(elements(format, path, depth));
    if (type == "or") return p_.choice(elements(format, path, depth));
    if (type == "tag") return tag(format, path, depth);
    if (type == "triggered_tags") return triggered_tags(format, path, depth);
    if (type == "tags_with_separator") return tags_with_separator(format, path, depth);
    fail("{}.type: '{}' is not supported", path, type);
  }

 private:
  struct Tag {
    std::string begin;
    ExpressionId rest = 0;  // behind `begin`
  };

  static const Json& member(const Json& format, const char* key, const std::string& path) {
    const auto found = format.find(key);
    if (found == format.end()) fail("{}.{}: missing", path, key);
    return *found;
  }

  static std::string word(const Json& format, const char* key, const std::string& path) {
    const Json& value = member(format, key, path);
    if (!value.is_string()) fail("{}.{}: expected a string", path, key);
    return value.get<std::string>();
  }

  static const Json& list(const Json& format, const char* key, const std::string& path) {
    const Json& value = member(format, key, path);
    if (!value.is_array() || value.empty()) fail("{}.{}: expected a list", path, key);
    return value;
  }

  static bool flag(const Json& format, const char* key) {
    const auto found = format.find(key);
    return found != format.end() && found->is_boolean() && found->get<bool>();
  }

  ExpressionId literal(const std::string& text) { return p_.bytes(context_.trie.mark_specials(text)); }

  ExpressionId schema(const Json& value, const std::string& path) {
    return with_context(path, [&] { return schema_expression(value, p_, context_.options); });
  }

  ExpressionId free_text() { return p_.repeat(p_.byte(0, kSpecialByte - 1), 0); }

  std::vector<ExpressionId> elements(const Json& format, const std::string& path, int depth) {
    std::vector<ExpressionId> parts;
    for (const Json& each : list(format, "elements", path)) {
      parts.push_back(read(each, fmt::format("{}.elements[{}]", path, parts.size()), depth + 1));
    }
    return parts;
  }

  // What is between `begin` and behind `end`.
  ExpressionId tag_rest(const Json& format, const std::string& path, int depth) {
    const Json& content = member(format, "content", path);
    const std::string end = context_.trie.mark_specials(word(format, "end", path));
    const bool free = content.is_object() && content.contains("type") && content.at("type") == Json("any_text");
    if (free && !end.empty()) {
      FreeText text = text_until({end}, p_);
      text.graph.ends[text.complete.front()] = true;
      return p_.graph(std::move(text.graph));
    }
    return p_.sequence({read(content, path + ".content", depth + 1), p_.bytes(end)});
  }

  ExpressionId tag(const Json& format, const std::string& path, int depth) {
    return p_.sequence({literal(word(format, "begin", path)), tag_rest(format, path, depth)});
  }

  std::vector<Tag> tags(const Json& format, const std::string& path, int depth) {
    std::vector<Tag> all;
    for (const Json& each : list(format, "tags", path)) {
      const std::string place = fmt::format("{}.tags[{}]", path, all.size());
      if (!each.is_object()) fail("{}: expected an object", place);
      std::string begin = context_.trie.mark_specials(word(each, "begin", place));
      const ExpressionId rest = tag_rest(each, place, depth);
      all.push_back({std::move(begin), rest});
    }
    return all;
  }

  ExpressionId triggered_tags(const Json& format, const std::string& path, int depth) {
    std::vector<std::string> triggers;
    for (const Json& each : list(format, "triggers", path)) {
      if (!each.is_string() || each.get_ref<const std::string&>().empty()) fail("{}.triggers: expected strings", path);
      triggers.push_back(context_.trie.mark_specials(each.get<std::string>()));
    }
    if (triggers.size() > kMostTriggers) fail("{}.triggers: more than {} of them", path, kMostTriggers);
    return triggered(triggers, tags(format, path, depth), format, path);
  }

  ExpressionId triggered(const std::vector<std::string>& triggers, const std::vector<Tag>& tags, const Json& format,
                         const std::string& path) {
    const bool once = flag(format, "stop_after_first");
    FreeText text = text_until(triggers, p_);
    const auto end = static_cast<uint32_t>(text.graph.ends.size());
    text.graph.ends.push_back(true);
    std::vector<bool> used(triggers.size(), false);
    std::vector<ExpressionId> whole;
    for (const Tag& each : tags) {
      bool triggered = false;
      whole.push_back(p_.sequence({p_.bytes(each.begin), each.rest}));
      for (size_t i = 0; i < triggers.size(); ++i) {
        if (!each.begin.starts_with(triggers[i])) continue;
        const ExpressionId rest = p_.sequence({p_.bytes(each.begin.substr(triggers[i].size())), each.rest});
        text.graph.edges.push_back({text.complete[i], once ? end : 0, rest});
        triggered = used[i] = true;
      }
      if (!triggered) fail("{}: no trigger begins the tag '{}'", path, each.begin);
    }
    for (size_t i = 0; i < triggers.size(); ++i) {
      if (!used[i]) fail("{}: no tag begins with trigger {}", path, i);
    }
    for (const uint32_t state : text.inside) text.graph.ends[state] = true;
    const ExpressionId free = p_.graph(std::move(text.graph));
    if (!flag(format, "at_least_one")) return free;
    const ExpressionId first = p_.choice(std::move(whole));
    return once ? first : p_.sequence({first, free});
  }

  ExpressionId tags_with_separator(const Json& format, const std::string& path, int depth) {
    std::vector<ExpressionId> ways;
    for (const Tag& each : tags(format, path, depth)) ways.push_back(p_.sequence({p_.bytes(each.begin), each.rest}));
    const ExpressionId one = p_.choice(std::move(ways));
    ExpressionId all = one;
    if (!flag(format, "stop_after_first")) {
      all = p_.sequence({one, p_.repeat(p_.sequence({literal(word(format, "separator", path)), one}), 0)});
    }
    return flag(format, "at_least_one") ? all : p_.optional(all);
  }

  // The older form.
  ExpressionId read_structures(const Json& format, const std::string& path) {
    std::vector<std::string> triggers;
    for (const Json& each : list(format, "triggers", path)) {
      if (!each.is_string() || each.get_ref<const std::string&>().empty()) fail("{}.triggers: expected strings", path);
      triggers.push_back(context_.trie.mark_specials(each.get<std::string>()));
    }
    std::vector<Tag> tags;
    for (const Json& each : list(format, "structures", path)) {
      const std::string place = fmt::format("{}.structures[{}]", path, tags.size());
      if (!each.is_object()) fail("{}: expected an object", place);
      const ExpressionId content = schema(member(each, "schema", place), place + ".schema");
      std::string begin = context_.trie.mark_specials(word(each, "begin", place));
      const ExpressionId rest = p_.sequence({content, literal(word(each, "end", place))});
      tags.push_back({std::move(begin), rest});
    }
    return triggered(triggers, tags, format, path);
  }

  Productions& p_;
  const FormatContext& context_;
};

}  // namespace

ExpressionId format_expression(const Json& format, Productions& productions, const FormatContext& context) {
  return FormatReader(productions, context).read(format, "$");
}

}  // namespace braid
