// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "text/template/parser.h"

namespace braid::jinja {
namespace {

// Nesting of brackets and statements, and length of operator chains, that the interpreter's stack can bear.
constexpr int kMaxNesting = 160;
constexpr int kMaxDepth = 400;

struct Nested {
  Nested(int& counter, int line) : count(counter) {
    if (++count > kMaxNesting) throw SyntaxFault{line, fmt::format("nested deeper than {} levels", kMaxNesting)};
  }
  ~Nested() { --count; }
  int& count;
};

int depth_of(const ExpressionPtr& expression) { return expression ? expression->depth : 0; }

template <typename Items>
int deepest(const Items& items) {
  int depth = 0;
  for (const auto& item : items) depth = std::max(depth, depth_of(item));
  return depth;
}

int depth_of(const CallArguments& arguments) {
  int depth = std::max({deepest(arguments.positional), depth_of(arguments.spread), depth_of(arguments.named_spread)});
  for (const auto& [name, value] : arguments.named) depth = std::max(depth, depth_of(value));
  return depth;
}

struct InnerDepth {
  int operator()(const Constant&) const { return 0; }
  int operator()(const Name&) const { return 0; }
  int operator()(const TupleDisplay& node) const { return deepest(node.items); }
  int operator()(const ListDisplay& node) const { return deepest(node.items); }
  int operator()(const DictDisplay& node) const {
    int depth = 0;
    for (const auto& [key, value] : node.entries) depth = std::max({depth, depth_of(key), depth_of(value)});
    return depth;
  }
  int operator()(const Unary& node) const { return depth_of(node.operand); }
  int operator()(const Binary& node) const { return std::max(depth_of(node.left), depth_of(node.right)); }
  int operator()(const Logical& node) const { return std::max(depth_of(node.left), depth_of(node.right)); }
  int operator()(const Comparison& node) const {
    int depth = depth_of(node.first);
    for (const auto& [how, value] : node.rest) depth = std::max(depth, depth_of(value));
    return depth;
  }
  int operator()(const Concatenation& node) const { return deepest(node.parts); }
  int operator()(const Conditional& node) const {
    return std::max({depth_of(node.test), depth_of(node.yes), depth_of(node.no)});
  }
  int operator()(const AttributeAccess& node) const { return depth_of(node.object); }
  int operator()(const ItemAccess& node) const { return std::max(depth_of(node.object), depth_of(node.key)); }
  int operator()(const SliceAccess& node) const {
    return std::max({depth_of(node.object), depth_of(node.start), depth_of(node.stop), depth_of(node.step)});
  }
  int operator()(const Call& node) const { return std::max(depth_of(node.callee), depth_of(node.arguments)); }
  int operator()(const FilterUse& node) const { return std::max(depth_of(node.input), depth_of(node.arguments)); }
  int operator()(const TestUse& node) const { return std::max(depth_of(node.input), depth_of(node.arguments)); }
};

}  // namespace

template <typename Node>
ExpressionPtr Parser::make(int line, Node node) {
  const int depth = InnerDepth{}(node) + 1;
  if (depth > kMaxDepth) throw SyntaxFault{line, fmt::format("an expression is longer than {} operations", kMaxDepth)};
  return std::make_unique<Expression>(Expression{line, depth, std::move(node)});
}

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

ExpressionPtr Parser::parse_postfix(ExpressionPtr inner) {
  while (true) {
    const int line = stream_.line();
    if (stream_.at_operator(".")) {
      inner = parse_attribute(std::move(inner));
    } else if (stream_.at_operator("[")) {
      inner = parse_subscript(std::move(inner));
    } else if (stream_.at_operator("(")) {
      CallArguments arguments = parse_arguments();
      inner = make(line, Call{std::move(inner), std::move(arguments)});
    } else {
      return inner;
    }
  }
}

ExpressionPtr Parser::parse_filters(ExpressionPtr inner) {
  while (true) {
    const int line = stream_.line();
    if (stream_.at_operator("|")) {
      inner = parse_filter(std::move(inner));
    } else if (stream_.at_name("is")) {
      inner = parse_test(std::move(inner));
    } else if (stream_.at_operator("(")) {
      CallArguments arguments = parse_arguments();
      inner = make(line, Call{std::move(inner), std::move(arguments)});
    } else {
      return inner;
    }
  }
}

std::string Parser::parse_dotted_name() {
  std::string name = stream_.expect(TokenKind::Name).text;
  while (stream_.take_operator(".")) name += "." + stream_.expect(TokenKind::Name).text;
  return name;
}

// Takes "|name(...)" as often as it stands here; a filter block begins without the bar.
ExpressionPtr Parser::parse_filter(ExpressionPtr input) {
  do {
    stream_.take_operator("|");
    const int line = stream_.line();
    FilterUse use{std::move(input), parse_dotted_name(), nullptr, {}};
    use.filter = find_filter(use.name);
    if (!use.filter) note_unknown(fmt::format("no filter named '{}'", use.name), line);
    if (stream_.at_operator("(")) use.arguments = parse_arguments();
    input = make(line, std::move(use));
  } while (stream_.at_operator("|"));
  return input;
}

ExpressionPtr Parser::parse_test(ExpressionPtr input) {
  const int line = stream_.take().line;
  const bool negated = stream_.take_name("not");
  TestUse use{std::move(input), parse_dotted_name(), nullptr, {}};
  use.test = find_test(use.name);
  if (!use.test) note_unknown(fmt::format("no test named '{}'", use.name), line);
  const Token& next = stream_.peek();
  const bool word = next.kind == TokenKind::Name && next.text != "else" && next.text != "or" && next.text != "and";
  if (stream_.at_operator("(")) {
    use.arguments = parse_arguments();
  } else if (word || next.kind == TokenKind::String || next.kind == TokenKind::Number || stream_.at_operator("[") ||
             stream_.at_operator("{")) {
    if (stream_.at_name("is")) throw SyntaxFault{line, "tests cannot be chained with is"};
    use.arguments.positional.push_back(parse_postfix(parse_primary()));
  }
  ExpressionPtr test = make(line, std::move(use));
  return negated ? make(line, Unary{'!', std::move(test)}) : std::move(test);
}

ExpressionPtr Parser::parse_attribute(ExpressionPtr object) {
  const int line = stream_.take().line;
  if (stream_.at_kind(TokenKind::Name))
    return make(line, AttributeAccess{std::move(object), Text(stream_.take().text)});
  if (!stream_.at_kind(TokenKind::Number) || !stream_.peek().number.is<Integer>())
    stream_.unexpected("a name or number");
  ExpressionPtr key = make(line, Constant{stream_.take().number});
  return make(line, ItemAccess{std::move(object), std::move(key)});
}

ExpressionPtr Parser::parse_subscript(ExpressionPtr object) {
  const int line = stream_.take().line;
  if (stream_.at_operator("]")) {
    stream_.take();
    return make(line, ItemAccess{std::move(object), make(line, TupleDisplay{})});
  }
  const auto at_part_end = [&] {
    return stream_.at_operator(":") || stream_.at_operator("]") || stream_.at_operator(",");
  };
  ExpressionPtr first = stream_.at_operator(":") ? nullptr : parse_expression();
  if (stream_.take_operator(":")) {
    SliceAccess slice{std::move(object), std::move(first), nullptr, nullptr};
    if (!at_part_end()) slice.stop = parse_expression();
    if (stream_.take_operator(":") && !at_part_end()) slice.step = parse_expression();
    stream_.expect_operator("]");
    return make(line, std::move(slice));
  }
  if (!stream_.at_operator(",")) {
    stream_.expect_operator("]");
    return make(line, ItemAccess{std::move(object), std::move(first)});
  }
  TupleDisplay key;
  key.items.push_back(std::move(first));
  while (!stream_.at_operator("]")) {
    stream_.expect_operator(",");
    key.items.push_back(parse_expression());
  }
  stream_.take();
  return make(line, ItemAccess{std::move(object), make(line, std::move(key))});
}

CallArguments Parser::parse_arguments() {
  const int line = stream_.line();
  stream_.expect_operator("(");
  CallArguments arguments;
  const auto ensure = [&](bool valid) {
    if (!valid) throw SyntaxFault{line, "invalid syntax for function call expression"};
  };
  for (bool first = true; !stream_.at_operator(")"); first = false) {
    if (!first) stream_.expect_operator(",");
    if (stream_.at_operator(")")) break;
    if (stream_.take_operator("*")) {
      ensure(!arguments.spread && !arguments.named_spread);
      arguments.spread = parse_expression();
    } else if (stream_.take_operator("**")) {
      ensure(!arguments.named_spread);
      arguments.named_spread = parse_expression();
    } else if (stream_.at_kind(TokenKind::Name) && stream_.at_operator("=", 1)) {
      ensure(!arguments.named_spread);
      const std::string name = stream_.take().text;
      stream_.take();
      for (const auto& [other, value] : arguments.named) {
        if (other == name) throw SyntaxFault{line, fmt::format("keyword argument repeated: {}", name)};
      }
      arguments.named.emplace_back(name, parse_expression());
    } else {
      ensure(!arguments.spread && !arguments.named_spread && arguments.named.empty());
      arguments.positional.push_back(parse_expression());
    }
  }
  stream_.expect_operator(")");
  return arguments;
}

}  // namespace braid::jinja
