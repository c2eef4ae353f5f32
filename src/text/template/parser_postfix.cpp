// What follows a value in an expression: attributes, subscripts, calls, filters and tests.
// SPDX-License-Identifier: Apache-2.0
#include "text/template/parser.h"

namespace braid::jinja {

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
