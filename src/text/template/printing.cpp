// SPDX-License-Identifier: Apache-2.0
#include "text/template/printing.h"

#include "base/utf8.h"
#include "text/template/compare.h"
#include "text/template/numbers.h"
#include "text/template/python_text.h"

namespace braid::jinja {
namespace {

std::string escaped_code(uint32_t code) {
  if (code < 0x100) return fmt::format("\\x{:02x}", code);
  if (code < 0x10000) return fmt::format("\\u{:04x}", code);
  return fmt::format("\\U{:08x}", code);
}

class ReprWriter {
 public:
  void put(const Value& value) {
    if (const Text* text = value.as_text())
      return add(text->markup() ? "Markup(" + repr_of_text(text->bytes()) + ")" : repr_of_text(text->bytes()));
    if (const auto* list = value.as<List>()) return put_items((*list)->items, "[", "]");
    if (const auto* tuple = value.as<Tuple>()) {
      const auto& items = tuple->sequence->items;
      return put_items(items, "(", items.size() == 1 ? ",)" : ")");
    }
    if (const Dict* dict = value.as_dict()) return put_dict(*dict);
    if (const auto* view = value.as<View>()) return put_view(*view, type_name(value));
    add(scalar(value));
  }

  std::string take() { return std::move(out_); }

 private:
  void add(std::string_view piece) {
    check_text_size(out_.size() + piece.size());
    out_ += piece;
  }

  void put_items(const std::vector<Value>& items, std::string_view open, std::string_view close) {
    add(open);
    for (size_t i = 0; i < items.size(); ++i) {
      if (i > 0) add(", ");
      put(items[i]);
    }
    add(close);
  }

  void put_dict(const Dict& dict) {
    add("{");
    bool first = true;
    for (const auto& [key, value] : dict.entries()) {
      if (!first) add(", ");
      first = false;
      put(key);
      add(": ");
      put(value);
    }
    add("}");
  }

  void put_view(const View& view, std::string_view type) {
    add(type);
    add("([");
    bool first = true;
    for (const auto& [key, value] : view.dict->entries()) {
      if (!first) add(", ");
      first = false;
      if (view.kind == ViewKind::Items) add("(");
      if (view.kind != ViewKind::Values) put(key);
      if (view.kind == ViewKind::Items) add(", ");
      if (view.kind != ViewKind::Keys) put(value);
      if (view.kind == ViewKind::Items) add(")");
    }
    add("])");
  }

  static std::string scalar(const Value& value) {
    if (value.is_undefined()) return "Undefined";
    if (value.is_none()) return "None";
    if (const auto* flag = value.as<bool>()) return *flag ? "True" : "False";
    if (const auto* number = value.as<Integer>()) return print_integer(*number);
    if (const auto* number = value.as<double>()) return print_float(*number);
    if (const auto* range = value.as<Range>()) {
      return range->step == 1 ? fmt::format("range({}, {})", range->start, range->stop)
                              : fmt::format("range({}, {}, {})", range->start, range->stop, range->step);
    }
    if (const auto* object = value.as<std::shared_ptr<Object>>()) return (*object)->repr();
    return fmt::format("<{} object>", type_name(value));
  }

  std::string out_;
};

void put_json_string(std::string& out, std::string_view text, bool ensure_ascii) {
  out += '"';
  for (size_t at = 0; at < text.size();) {
    const Utf8Char c = decode_utf8(text, at);
    switch (c.code) {
      case '"':
        out += "\\\"";
        break;
      case '\\':
        out += "\\\\";
        break;
      case '\n':
        out += "\\n";
        break;
      case '\r':
        out += "\\r";
        break;
      case '\t':
        out += "\\t";
        break;
      case '\f':
        out += "\\f";
        break;
      case '\b':
        out += "\\b";
        break;
      default:
        if (c.code < 0x20 || (ensure_ascii && c.code > 0x7E && c.code < 0x10000)) {
          out += fmt::format("\\u{:04x}", c.code);
        } else if (ensure_ascii && c.code >= 0x10000) {
          const uint32_t rest = c.code - 0x10000;
          out += fmt::format("\\u{:04x}\\u{:04x}", 0xD800 + (rest >> 10), 0xDC00 + (rest & 0x3FF));
        } else {
          out += text.substr(at, c.bytes);
        }
    }
    at += c.bytes;
  }
  out += '"';
}

std::string json_float(double number) {
  const std::string text = print_float(number);
  return text == "nan" ? "NaN" : text == "inf" ? "Infinity" : text == "-inf" ? "-Infinity" : text;
}

class JsonWriter {
 public:
  explicit JsonWriter(const JsonStyle& style) : style_(style) {}

  void put(const Value& value) {
    check_text_size(out_.size());
    if (const Text* text = value.as_text()) return put_json_string(out_, text->bytes(), style_.ensure_ascii);
    if (const Sequence* sequence = value.as_sequence()) return put_items(sequence->items);
    if (const Dict* dict = value.as_dict()) return put_dict(*dict);
    const auto word = scalar(value);
    if (!word) raise("Object of type {} is not JSON serializable", type_name(value));
    out_ += *word;
  }

  std::string take() { return std::move(out_); }

 private:
  static std::optional<std::string> scalar(const Value& value) {
    if (value.is_none()) return "null";
    if (const auto* flag = value.as<bool>()) return *flag ? "true" : "false";
    if (const auto* number = value.as<Integer>()) return print_integer(*number);
    if (const auto* number = value.as<double>()) return json_float(*number);
    return std::nullopt;
  }

  void new_line() {
    if (!style_.indent) return;
    out_ += '\n';
    for (int i = 0; i < depth_; ++i) out_ += *style_.indent;
  }

  template <typename Items, typename Put>
  void put_all(const Items& items, std::string_view brackets, Put put_one) {
    out_ += brackets[0];
    ++depth_;
    bool first = true;
    for (const auto& item : items) {
      if (!first) out_ += style_.item_separator;
      first = false;
      new_line();
      put_one(item);
    }
    --depth_;
    if (!first) new_line();
    out_ += brackets[1];
  }

  void put_items(const std::vector<Value>& items) {
    put_all(items, "[]", [&](const Value& item) { put(item); });
  }

  void put_dict(const Dict& dict) {
    const auto put_entry = [&](const Dict::Entry& entry) {
      const Text* text = entry.first.as_text();
      const auto word = text ? std::optional(text->bytes()) : scalar(entry.first);
      if (!word) raise("keys must be str, int, float, bool or None, not {}", type_name(entry.first));
      put_json_string(out_, *word, style_.ensure_ascii);
      out_ += style_.key_separator;
      put(entry.second);
    };
    if (!style_.sort_keys) return put_all(dict.entries(), "{}", put_entry);
    put_all(sorted_entries(dict), "{}", put_entry);
  }

  static std::vector<Dict::Entry> sorted_entries(const Dict& dict) {
    std::vector<Value> keys;
    for (const auto& entry : dict.entries()) keys.push_back(entry.first);
    std::vector<Dict::Entry> sorted;
    for (const size_t at : sorted_order(keys, false)) sorted.push_back(dict.entries()[at]);
    return sorted;
  }

  const JsonStyle& style_;
  int depth_ = 0;
  std::string out_;
};

Value from_json_at(const Json& json, uint32_t depth) {
  if (depth > kMaxValueDepth) raise_limit("a JSON value is nested deeper than {} levels", kMaxValueDepth);
  switch (json.type()) {
    case Json::value_t::boolean:
      return Value::boolean(json.get<bool>());
    case Json::value_t::number_integer:
      return Value::integer(json.get<int64_t>());
    case Json::value_t::number_unsigned:
      return Value::integer(json.get<uint64_t>());
    case Json::value_t::number_float:
      return Value::real(json.get<double>());
    case Json::value_t::string: {
      const auto& text = json.get_ref<const std::string&>();
      return Value::text(is_utf8(text) ? text : to_valid_utf8(text));
    }
    case Json::value_t::array: {
      std::vector<Value> items;
      items.reserve(json.size());
      for (const Json& item : json) items.push_back(from_json_at(item, depth + 1));
      return Value::list(std::move(items));
    }
    case Json::value_t::object: {
      Dict dict;
      for (const auto& [key, value] : json.items()) {
        dict.set(Value::text(is_utf8(key) ? key : to_valid_utf8(key)), from_json_at(value, depth + 1));
      }
      return make_dict(std::move(dict));
    }
    default:
      return {};
  }
}

}  // namespace

std::string to_text(const Value& value) {
  if (const Text* text = value.as_text()) return text->bytes();
  if (value.is_undefined()) return {};
  return repr(value);
}

std::string repr(const Value& value) {
  ReprWriter writer;
  writer.put(value);
  return writer.take();
}

std::string repr_of_text(std::string_view text) {
  const bool double_quotes = text.find('\'') != std::string_view::npos && text.find('"') == std::string_view::npos;
  const char quote = double_quotes ? '"' : '\'';
  std::string out(1, quote);
  for (size_t at = 0; at < text.size();) {
    const Utf8Char c = decode_utf8(text, at);
    if (c.code == static_cast<uint32_t>(quote) || c.code == '\\') {
      out += '\\';
      out += text[at];
    } else if (c.code == '\n' || c.code == '\r' || c.code == '\t') {
      out += c.code == '\n' ? "\\n" : c.code == '\r' ? "\\r" : "\\t";
    } else if (in_class(c.code, CharacterClass::Printable)) {
      out += text.substr(at, c.bytes);
    } else {
      out += escaped_code(c.code);
    }
    at += c.bytes;
  }
  out += quote;
  return out;
}

std::string ascii_of(const Value& value) {
  const std::string text = repr(value);
  std::string out;
  for (const uint32_t code : to_characters(text))
    out += code < 0x80 ? std::string(1, static_cast<char>(code)) : escaped_code(code);
  return out;
}

std::string to_json_text(const Value& value, const JsonStyle& style) {
  JsonWriter writer(style);
  writer.put(value);
  return writer.take();
}

Value from_json(const Json& json) { return from_json_at(json, 0); }

}  // namespace braid::jinja
