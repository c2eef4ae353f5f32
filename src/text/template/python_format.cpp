// SPDX-License-Identifier: Apache-2.0
#include "text/template/python_format.h"

#include <optional>

#include "base/utf8.h"
#include "text/template/number_format.h"
#include "text/template/operators.h"
#include "text/template/printing.h"
#include "text/template/python_text.h"

namespace braid::jinja {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }

int64_t read_count(std::string_view text, size_t& at) {
  int64_t count = 0;
  while (at < text.size() && is_digit(text[at])) {
    count = count * 10 + (text[at++] - '0');
    if (count > static_cast<int64_t>(kMaxTextBytes)) check_text_size(kMaxTextBytes + 1);
  }
  return count;
}

// ---- "%d" % x

class PercentFormatter {
 public:
  PercentFormatter(const Text& format, const Value& arguments) : format_(format.bytes()), markup_(format.markup()) {
    if (const auto* tuple = arguments.as<Tuple>()) {
      arguments_ = tuple->sequence->items;
      spread_ = true;
    } else {
      arguments_ = {arguments};
    }
    names_ = arguments.as_dict();
    // Python lets anything that can be subscripted pass unused, strings and tuples excepted.
    may_be_unused_ = names_ || arguments.is<List>() || arguments.is<Range>() || arguments.is_undefined();
  }

  std::string run() {
    while (at_ < format_.size()) {
      if (format_[at_] != '%') {
        out_ += format_[at_++];
        continue;
      }
      ++at_;
      directive();
      check_text_size(out_.size());
    }
    if (next_ < arguments_.size() && !may_be_unused_) raise("not all arguments converted during string formatting");
    return std::move(out_);
  }

 private:
  char peek() const {
    if (at_ >= format_.size()) raise("incomplete format");
    return format_[at_];
  }

  Value take() {
    if (next_ >= arguments_.size()) raise("not enough arguments for format string");
    return arguments_[next_++];
  }

  std::optional<Value> named() {
    if (peek() != '(') return std::nullopt;
    const size_t start = ++at_;
    for (int depth = 1; depth > 0; ++at_) {
      if (at_ >= format_.size()) raise("incomplete format key");
      depth += format_[at_] == '(' ? 1 : format_[at_] == ')' ? -1 : 0;
    }
    const std::string_view key = format_.substr(start, at_ - 1 - start);
    if (!names_) raise("format requires a mapping");
    const Value* found = names_->find(key);
    if (!found) raise("no value for the format key '{}'", key);
    next_ = arguments_.size();
    return *found;
  }

  int64_t star() {
    ++at_;
    return index_argument(take(), "* of a format");
  }

  void directive() {
    FieldStyle style;
    std::optional<Value> value = named();
    bool zero = false;
    for (; std::string_view("#0- +").find(peek()) != std::string_view::npos; ++at_) {
      if (peek() == '#') style.alternate = true;
      if (peek() == '0') zero = true;
      if (peek() == '-') style.align = '<';
      if (peek() == '+') style.sign = '+';
      if (peek() == ' ' && style.sign != '+') style.sign = ' ';
    }
    style.width = peek() == '*' ? star() : read_count(format_, at_);
    if (style.width < 0) {
      style.align = '<';
      style.width = -style.width;
    }
    if (peek() == '.') {
      ++at_;
      style.precision = peek() == '*' ? std::max<int64_t>(star(), 0) : read_count(format_, at_);
    }
    if (peek() == 'l' || peek() == 'h' || peek() == 'L') ++at_;
    style.type = peek();
    ++at_;
    if (style.type == '%') {
      out_ += '%';
      return;
    }
    if (zero && style.align == 0) {
      style.fill = "0";
      style.align = '=';
    }
    if (style.align == 0) style.align = '>';
    out_ += convert(value ? *value : take(), style);
  }

  std::string convert(const Value& value, FieldStyle style) {
    switch (style.type) {
      case 's':
      case 'r':
      case 'a':
        return text_field(style.type == 's'   ? to_text(value)
                          : style.type == 'r' ? repr(value)
                                              : ascii_of(value),
                          style, value.as_text() && value.as_text()->markup());
      case 'c':
        return character_field(value, style);
      case 'd':
      case 'i':
      case 'u':
      case 'x':
      case 'X':
      case 'o':
        return integer_field(value, style);
      case 'e':
      case 'E':
      case 'f':
      case 'F':
      case 'g':
      case 'G':
        return format_float(real_argument(value), style);
      default:
        raise("unsupported format character '{}' (0x{:x})", style.type, static_cast<unsigned>(style.type));
    }
  }

  std::string text_field(std::string text, FieldStyle style, bool safe) const {
    if (markup_ && !safe) text = escape_html(text);
    if (style.precision >= 0) text = text.substr(0, byte_offset(text, static_cast<size_t>(style.precision)));
    if (style.align == '=') style.align = '>';
    style.fill = " ";
    return pad_text(text, style);
  }

  std::string character_field(const Value& value, FieldStyle style) const {
    if (const Text* text = value.as_text()) {
      if (text->length() != 1) raise("%c requires int or char");
      return text_field(text->bytes(), style, false);
    }
    style.align = style.align == '=' ? '>' : style.align;
    style.fill = " ";
    style.precision = -1;
    return format_integer(index_argument(value, "%c"), style);
  }

  std::string integer_field(const Value& value, FieldStyle style) const {
    const auto number = as_number(value);
    if (value.is_undefined()) raise_undefined(value);
    const bool based = style.type == 'x' || style.type == 'X' || style.type == 'o';
    if (!number || (based && number->real)) {
      raise("%{} format: {} is required, not {}", style.type, based ? "an integer" : "a real number", type_name(value));
    }
    const Integer whole = number->real ? truncate(number->fraction) : number->whole;
    const char type = style.type;
    const int64_t digits_wanted = style.precision;
    style.precision = -1;
    if (type == 'i' || type == 'u') style.type = 'd';
    if (digits_wanted < 0) return format_integer(whole, style);
    FieldStyle bare{.alternate = style.alternate, .type = style.type};
    std::string digits = format_integer(whole < 0 ? -whole : whole, bare);
    const std::string prefix = style.alternate && based ? digits.substr(0, 2) : "";
    digits = prefix + pad(std::string_view(digits).substr(prefix.size()), digits_wanted, Side::Left, "0");
    return pad_number(whole < 0 ? "-" : style.sign == '-' ? "" : std::string(1, style.sign), digits, style);
  }

  static double real_argument(const Value& value) {
    if (value.is_undefined()) raise_undefined(value);
    const auto number = as_number(value);
    if (!number) raise("must be real number, not {}", type_name(value));
    return number->as_double();
  }

  std::string_view format_;
  bool markup_;
  std::vector<Value> arguments_;
  const Dict* names_ = nullptr;
  bool spread_ = false, may_be_unused_ = false;
  size_t at_ = 0, next_ = 0;
  std::string out_;
};

// ---- format(x, spec)

FieldStyle parse_spec(std::string_view spec) {
  FieldStyle style;
  size_t at = 0;
  bool filled = false;
  const auto is_align = [](char c) { return c == '<' || c == '>' || c == '^' || c == '='; };
  if (!spec.empty()) {
    const size_t first = decode_utf8(spec, 0).bytes;
    if (first < spec.size() && is_align(spec[first])) {
      style.fill = spec.substr(0, first);
      style.align = spec[first];
      filled = true;
      at = first + 1;
    } else if (is_align(spec[0])) {
      style.align = spec[0];
      at = 1;
    }
  }
  const auto take = [&](std::string_view any) {
    return at < spec.size() && any.find(spec[at]) != std::string_view::npos ? spec[at++] : '\0';
  };
  if (const char sign = take("+- ")) style.sign = sign;
  if (take("#")) style.alternate = true;
  if (take("0") && !filled) {
    style.fill = "0";
    if (style.align == 0) style.align = '=';
  }
  style.width = read_count(spec, at);
  style.grouping = take(",_");
  if (take(".")) {
    if (at >= spec.size() || !is_digit(spec[at])) raise("Format specifier missing precision");
    style.precision = read_count(spec, at);
  }
  if (at < spec.size()) style.type = spec[at++];
  if (at < spec.size()) raise("Invalid format specifier '{}'", spec);
  return style;
}

std::string format_text(const Text& text, FieldStyle style) {
  if (style.type != 0 && style.type != 's') raise("Unknown format code '{}' for object of type 'str'", style.type);
  if (style.sign != '-') raise("Sign not allowed in string format specifier");
  if (style.alternate) raise("Alternate form (#) not allowed in string format specifier");
  if (style.grouping != 0) raise("Cannot specify '{}' with 's'.", style.grouping);
  if (style.align == '=' && style.fill == "0") style.align = '<';
  std::string_view shown = text.bytes();
  if (style.precision >= 0) shown = shown.substr(0, byte_offset(shown, static_cast<size_t>(style.precision)));
  return pad_text(shown, style);
}

// ---- "{}".format(x)

class BraceFormatter {
 public:
  explicit BraceFormatter(const Arguments& arguments) : arguments_(arguments) {}

  std::string run(std::string_view format, int depth = 0) {
    if (depth > 2) raise("Max string recursion exceeded");
    std::string out;
    for (size_t at = 0; at < format.size();) {
      const char c = format[at];
      if (c != '{' && c != '}') {
        out += c;
        ++at;
      } else if (at + 1 < format.size() && format[at + 1] == c) {
        out += c;
        at += 2;
      } else if (c == '}') {
        raise("Single '}}' encountered in format string");
      } else {
        out += field(inside(format, at), depth);
        check_text_size(out.size());
      }
    }
    return out;
  }

 private:
  // The text between the braces at `at`, which moves behind them.
  static std::string_view inside(std::string_view format, size_t& at) {
    const size_t start = ++at;
    for (int depth = 1; at < format.size(); ++at) {
      depth += format[at] == '{' ? 1 : format[at] == '}' ? -1 : 0;
      if (depth == 0) return format.substr(start, at++ - start);
    }
    raise("expected '}}' before end of string");
  }

  std::string field(std::string_view content, int depth) {
    size_t end = 0;
    for (int brackets = 0; end < content.size(); ++end) {
      if (content[end] == '[') ++brackets;
      if (content[end] == ']') --brackets;
      if (brackets == 0 && (content[end] == '!' || content[end] == ':')) break;
    }
    Value value = lookup(content.substr(0, end));
    std::string_view rest = content.substr(end);
    if (!rest.empty() && rest[0] == '!') {
      if (rest.size() < 2 || (rest.size() > 2 && rest[2] != ':')) raise("expected ':' after conversion specifier");
      value = converted(value, rest[1]);
      rest.remove_prefix(2);
    }
    if (!rest.empty()) rest.remove_prefix(1);
    return format_value(value, run(rest, depth + 1));
  }

  static Value converted(const Value& value, char how) {
    if (how == 's') return Value::text(to_text(value));
    if (how == 'r') return Value::text(repr(value));
    if (how == 'a') return Value::text(ascii_of(value));
    raise("Unknown conversion specifier {}", how);
  }

  Value lookup(std::string_view path) {
    const size_t end = std::min(path.find_first_of(".["), path.size());
    Value value = root(path.substr(0, end));
    for (size_t at = end; at < path.size();) {
      if (path[at] == '.') {
        const size_t stop = std::min(path.find_first_of(".[", at + 1), path.size());
        value = attribute_of(value, Text(std::string(path.substr(at + 1, stop - at - 1))));
        at = stop;
        continue;
      }
      const size_t stop = path.find(']', at);
      if (path[at] != '[' || stop == std::string_view::npos) raise("Only '.' or '[' may follow ']' in format field");
      const std::string key(path.substr(at + 1, stop - at - 1));
      const bool number = !key.empty() && key.find_first_not_of("0123456789") == std::string::npos;
      value = item_of(value, number ? Value::integer(parse_integer(key, 10).value_or(0)) : Value::text(key));
      at = stop + 1;
    }
    return value;
  }

  Value root(std::string_view name) {
    const bool number = name.find_first_not_of("0123456789") == std::string_view::npos;
    if (!number) {
      for (const auto& [key, value] : arguments_.named) {
        if (key == name) return value;
      }
      raise("no value for the format key '{}'", name);
    }
    if ((automatic_ && !name.empty()) || (manual_ && name.empty())) {
      raise("cannot mix automatic field numbering and manual field specification");
    }
    (name.empty() ? automatic_ : manual_) = true;
    size_t at = 0;
    const size_t index = name.empty() ? next_++ : static_cast<size_t>(read_count(name, at));
    if (index >= arguments_.positional.size())
      raise("Replacement index {} out of range for positional args tuple", index);
    return arguments_.positional[index];
  }

  const Arguments& arguments_;
  bool automatic_ = false, manual_ = false;
  size_t next_ = 0;
};

}  // namespace

Value format_percent(const Text& format, const Value& arguments) {
  return Value::text(PercentFormatter(format, arguments).run(), format.markup());
}

std::string format_braces(std::string_view format, const Arguments& arguments) {
  return BraceFormatter(arguments).run(format);
}

std::string format_value(const Value& value, std::string_view spec) {
  if (spec.empty()) return to_text(value);
  const FieldStyle style = parse_spec(spec);
  if (const Text* text = value.as_text()) return format_text(*text, style);
  const auto number = as_number(value);
  if (!number) raise("unsupported format string passed to {}.__format__", type_name(value));
  const std::string_view kinds = number->real ? "eEfFgGn%" : "bcdoxXneEfFgG%";
  if (style.type != 0 && kinds.find(style.type) == std::string_view::npos) {
    raise("Unknown format code '{}' for object of type '{}'", style.type, type_name(value));
  }
  if (!number->real && std::string_view("eEfFgG%").find(style.type) == std::string_view::npos) {
    return format_integer(number->whole, style);
  }
  if (!number->real && style.type == 0) return format_integer(number->whole, style);
  return format_float(number->as_double(), style);
}

}  // namespace braid::jinja
