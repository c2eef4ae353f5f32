// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "text/template/parser.h"

namespace braid::jinja {
namespace {

// Nesting of brackets and statements that the stack can bear.
constexpr int kMaxNesting = 160;

struct Nested {
  Nested(int& counter, int line) : count(counter) {
    if (++count > kMaxNesting) throw SyntaxFault{line, fmt::format("nested deeper than {} levels", kMaxNesting)};
  }
  ~Nested() { --count; }
  int& count;
};

}  // namespace

ExpressionPtr Parser::binary(int line, Arithmetic operation, ExpressionPtr left, ExpressionPtr right) {
  return make(line, Binary{operation, std::move(left), std::move(right)});
}

void Parser::note_unknown(std::string message, int line) {
  if (!in_branch_) unknown_.push_back({line, std::move(message)});
}

ExpressionPtr Parser::parse_expression() {
  const Nested nested(nesting_, stream_.line());
  const int line = stream_.line();
  const size_t unknown_before = unknown_.size();
  ExpressionPtr value = parse_or();
  while (stream_.take_name("if")) {
    ExpressionPtr test = parse_or();
    ExpressionPtr no = stream_.take_name("else") ? parse_expression() : nullptr;
    value = make(line, Conditional{std::move(test), std::move(value), std::move(no)});
    unknown_.resize(std::min(unknown_before, unknown_.size()));  // may never be reached
  }
  return value;
}

ExpressionPtr Parser::parse_or() {
  ExpressionPtr left = parse_and();
  while (stream_.at_name("or")) {
    const int line = stream_.take().line;
    ExpressionPtr right = parse_and();
    left = make(line, Logical{false, std::move(left), std::move(right)});
  }
  return left;
}

ExpressionPtr Parser::parse_and() {
  ExpressionPtr left = parse_not();
  while (stream_.at_name("and")) {
    const int line = stream_.take().line;
    ExpressionPtr right = parse_not();
    left = make(line, Logical{true, std::move(left), std::move(right)});
  }
  return left;
}

ExpressionPtr Parser::parse_not() {
  if (!stream_.at_name("not")) return parse_comparison();
  const Nested nested(nesting_, stream_.line());
  const int line = stream_.take().line;
  return make(line, Unary{'!', parse_not()});
}

ExpressionPtr Parser::parse_comparison() {
  static constexpr std::pair<std::string_view, Comparator> kComparators[] = {
      {"==", Comparator::Equal},     {"!=", Comparator::NotEqual}, {"<", Comparator::Less},
      {"<=", Comparator::LessEqual}, {">", Comparator::Greater},   {">=", Comparator::GreaterEqual}};
  const int line = stream_.line();
  Comparison comparison{parse_sum(), {}};
  while (true) {
    const auto found = std::find_if(std::begin(kComparators), std::end(kComparators),
                                    [&](const auto& pair) { return stream_.at_operator(pair.first); });
    if (found != std::end(kComparators)) {
      stream_.take();
      comparison.rest.emplace_back(found->second, parse_sum());
    } else if (stream_.take_name("in")) {
      comparison.rest.emplace_back(Comparator::In, parse_sum());
    } else if (stream_.at_name("not") && stream_.at_name("in", 1)) {
      stream_.take();
      stream_.take();
      comparison.rest.emplace_back(Comparator::NotIn, parse_sum());
    } else {
      break;
    }
  }
  if (comparison.rest.empty()) return std::move(comparison.first);
  return make(line, std::move(comparison));
}

ExpressionPtr Parser::parse_sum() {
  ExpressionPtr left = parse_concatenation();
  while (stream_.at_operator("+") || stream_.at_operator("-")) {
    const Token token = stream_.take();
    ExpressionPtr right = parse_concatenation();
    left = binary(token.line, token.text == "+" ? Arithmetic::Add : Arithmetic::Subtract, std::move(left),
                  std::move(right));
  }
  return left;
}

ExpressionPtr Parser::parse_concatenation() {
  const int line = stream_.line();
  Concatenation concatenation;
  concatenation.parts.push_back(parse_product());
  while (stream_.take_operator("~")) concatenation.parts.push_back(parse_product());
  if (concatenation.parts.size() == 1) return std::move(concatenation.parts[0]);
  return make(line, std::move(concatenation));
}

ExpressionPtr Parser::parse_product() {
  static constexpr std::pair<std::string_view, Arithmetic> kProducts[] = {{"*", Arithmetic::Multiply},
                                                                          {"/", Arithmetic::Divide},
                                                                          {"//", Arithmetic::FloorDivide},
                                                                          {"%", Arithmetic::Modulo}};
  ExpressionPtr left = parse_power();
  while (true) {
    const auto found = std::find_if(std::begin(kProducts), std::end(kProducts),
                                    [&](const auto& pair) { return stream_.at_operator(pair.first); });
    if (found == std::end(kProducts)) return left;
    const int line = stream_.take().line;
    ExpressionPtr right = parse_power();
    left = binary(line, found->second, std::move(left), std::move(right));
  }
}

ExpressionPtr Parser::parse_power() {
  ExpressionPtr left = parse_unary();
  while (stream_.at_operator("**")) {
    const int line = stream_.take().line;
    ExpressionPtr right = parse_unary();
    left = binary(line, Arithmetic::Power, std::move(left), std::move(right));
  }
  return left;
}

ExpressionPtr Parser::parse_unary(bool with_filters) {
  const Nested nested(nesting_, stream_.line());
  ExpressionPtr inner;
  if (stream_.at_operator("-") || stream_.at_operator("+")) {
    const Token token = stream_.take();
    inner = make(token.line, Unary{token.text[0], parse_unary(false)});
  } else {
    inner = parse_primary();
  }
  inner = parse_postfix(std::move(inner));
  return with_filters ? parse_filters(std::move(inner)) : std::move(inner);
}

ExpressionPtr Parser::parse_primary() {
  const int line = stream_.line();
  if (stream_.at_kind(TokenKind::Name)) return parse_name_or_constant();
  if (stream_.at_kind(TokenKind::String)) return parse_string();
  if (stream_.at_kind(TokenKind::Number)) return make(line, Constant{stream_.take().number});
  if (stream_.at_operator("[")) return parse_list();
  if (stream_.at_operator("{")) return parse_dict();
  if (!stream_.take_operator("(")) stream_.unexpected("an expression");
  ExpressionPtr inner = parse_tuple({.parenthesized = true});
  stream_.expect_operator(")");
  return inner;
}

ExpressionPtr Parser::parse_name_or_constant() {
  const Token token = stream_.take();
  const std::string& word = token.text;
  if (word == "true" || word == "True") return make(token.line, Constant{Value::boolean(true)});
  if (word == "false" || word == "False") return make(token.line, Constant{Value::boolean(false)});
  if (word == "none" || word == "None") return make(token.line, Constant{Value()});
  read_name(word);
  return make(token.line, Name{names_.number_of(word)});
}

ExpressionPtr Parser::parse_string() {
  const Token first = stream_.take();
  std::string text = first.text;
  while (stream_.at_kind(TokenKind::String)) text += stream_.take().text;
  return make(first.line, Constant{Value::text(std::move(text))});
}

ExpressionPtr Parser::parse_tuple(const TupleRules& rules) {
  const int line = stream_.line();
  TupleDisplay tuple;
  bool is_tuple = false;
  while (true) {
    if (!tuple.items.empty()) stream_.expect_operator(",");
    const bool ended = stream_.at_kind(TokenKind::PrintEnd) || stream_.at_kind(TokenKind::BlockEnd) ||
                       stream_.at_operator(")") || (rules.before_recursive && stream_.at_name("recursive"));
    if (ended) break;
    tuple.items.push_back(rules.conditional ? parse_expression() : parse_or());
    if (!stream_.at_operator(",")) break;
    is_tuple = true;
  }
  if (!is_tuple && !tuple.items.empty()) return std::move(tuple.items[0]);
  if (!is_tuple && !rules.parenthesized) stream_.unexpected("an expression");
  return make(line, std::move(tuple));
}

ExpressionPtr Parser::parse_list() {
  const int line = stream_.line();
  stream_.expect_operator("[");
  ListDisplay list;
  while (!stream_.at_operator("]")) {
    if (!list.items.empty()) stream_.expect_operator(",");
    if (stream_.at_operator("]")) break;
    list.items.push_back(parse_expression());
  }
  stream_.expect_operator("]");
  return make(line, std::move(list));
}

ExpressionPtr Parser::parse_dict() {
  const int line = stream_.line();
  stream_.expect_operator("{");
  DictDisplay dict;
  while (!stream_.at_operator("}")) {
    if (!dict.entries.empty()) stream_.expect_operator(",");
    if (stream_.at_operator("}")) break;
    ExpressionPtr key = parse_expression();
    stream_.expect_operator(":");
    dict.entries.emplace_back(std::move(key), parse_expression());
  }
  stream_.expect_operator("}");
  return make(line, std::move(dict));
}

}  // namespace braid::jinja
