// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "text/template/parser.h"
#include "text/template/parser_scopes.h"

namespace braid::jinja {
namespace {

constexpr int kMaxStatementNesting = 60;

}  // namespace

Program parse(std::string_view source) { return Parser(source).run(); }

Program Parser::run() {
  Program program;
  program.loop_symbol = names_.number_of("loop");
  program.body = parse_body({});
  if (!unknown_.empty()) throw SyntaxFault{unknown_[0].line, unknown_[0].message};
  program.frames = names_set_first();
  program.walks_content = walks_content_;
  program.symbols = names_.take();
  return program;
}

// Reads statements up to a tag that begins with one of `ends`, whose word is left to be taken.
Body Parser::parse_body(const std::vector<std::string_view>& ends) {
  if (++nesting_ > kMaxStatementNesting) {
    throw SyntaxFault{stream_.line(), fmt::format("statements nested deeper than {} levels", kMaxStatementNesting)};
  }
  Body body;
  while (!stream_.at_kind(TokenKind::End)) {
    Token token = stream_.take();
    if (token.kind == TokenKind::Data) {
      body.push_back({token.line, Data{std::move(token.text)}});
    } else if (token.kind == TokenKind::PrintBegin) {
      body.push_back({token.line, Output{parse_tuple({})}});
      stream_.expect(TokenKind::PrintEnd);
    } else {
      const bool ended = std::any_of(ends.begin(), ends.end(), [&](auto word) { return stream_.at_name(word); });
      if (ended) break;
      if (stream_.at_name("print")) {
        parse_print(body);
      } else {
        body.push_back(parse_statement());
      }
      stream_.expect(TokenKind::BlockEnd);
    }
  }
  if (!ends.empty() && stream_.at_kind(TokenKind::End)) {
    throw SyntaxFault{stream_.line(), fmt::format("the template ends before '{}'", ends[0])};
  }
  --nesting_;
  return body;
}

Body Parser::parse_block_body(const std::vector<std::string_view>& ends) {
  stream_.take_operator(":");
  stream_.expect(TokenKind::BlockEnd);
  return parse_body(ends);
}

Body Parser::parse_last_body(std::string_view end) {
  Body body = parse_block_body({end});
  stream_.take();
  return body;
}

void Parser::parse_print(Body& into) {
  const int line = stream_.take().line;
  for (bool first = true; !stream_.at_kind(TokenKind::BlockEnd); first = false) {
    if (!first) stream_.expect_operator(",");
    into.push_back({line, Output{parse_expression()}});
  }
}

Statement Parser::parse_statement() {
  const Token keyword = stream_.expect(TokenKind::Name);
  const std::string& word = keyword.text;
  const int line = keyword.line;
  if (word == "if") return {line, parse_if()};
  const Temporarily<bool> unconditional(in_branch_, word == "set" ? in_branch_ : false);
  if (word == "set") return parse_set(line);
  if (word == "for") return {line, parse_for()};
  if (word == "macro") return {line, parse_macro()};
  if (word == "call") return {line, parse_call_block()};
  if (word == "filter") return {line, parse_filter_block()};
  if (word == "with") return {line, parse_with()};
  return parse_special(keyword);
}

Statement Parser::parse_special(const Token& keyword) {
  const std::string& word = keyword.text;
  const int line = keyword.line;
  if (word == "break" || word == "continue") {
    if (loop_depth_ == 0) throw SyntaxFault{line, fmt::format("'{}' outside loop", word)};
    if (word == "break") return {line, Break{}};
    return {line, Continue{}};
  }
  if (word == "generation") {
    const Temporarily<int> no_loop(loop_depth_, 0);
    const InFrame frame(*this);
    Body body = parse_last_body("endgeneration");
    return {line, Scoped{std::move(body), frame.number()}};
  }
  if (word == "block") return {line, parse_named_block()};
  if (word == "include" || word == "import" || word == "from" || word == "extends" || word == "autoescape") {
    throw SyntaxFault{line,
                      fmt::format("'{}' is not available: a chat template stands alone and prints plain text", word)};
  }
  throw SyntaxFault{line, fmt::format("unknown tag '{}'", word)};
}

Scoped Parser::parse_named_block() {
  const std::string name = stream_.expect(TokenKind::Name).text;
  stream_.take_name("scoped");
  stream_.take_name("required");
  const Temporarily<int> no_loop(loop_depth_, 0);
  const InFrame frame(*this, true);
  Body body = parse_last_body("endblock");
  stream_.take_name(name);
  return {std::move(body), frame.number(), true};
}

If Parser::parse_if() {
  const Temporarily<bool> branch(in_branch_, true);
  If result;
  while (true) {
    ExpressionPtr test = parse_tuple({.conditional = false});
    Body body = parse_block_body({"elif", "else", "endif"});
    result.branches.emplace_back(std::move(test), std::move(body));
    const Token end = stream_.take();
    if (end.text == "elif") continue;
    if (end.text == "else") result.otherwise = parse_last_body("endif");
    return result;
  }
}

// message.content, message['content'], a variable content, or one of these filtered.
bool Parser::is_content(const Expression& expression) const {
  if (const auto* access = std::get_if<AttributeAccess>(&expression.node)) return access->name.bytes() == "content";
  if (const auto* name = std::get_if<Name>(&expression.node)) return names_.name_of(name->symbol) == "content";
  if (const auto* filter = std::get_if<FilterUse>(&expression.node)) return filter->input && is_content(*filter->input);
  const auto* access = std::get_if<ItemAccess>(&expression.node);
  const auto* key = access ? std::get_if<Constant>(&access->key->node) : nullptr;
  const Text* text = key ? key->value.as_text() : nullptr;
  return text && text->bytes() == "content";
}

For Parser::parse_for() {
  For loop;
  ++for_depth_;
  loop.target = parse_target(true, false);
  stream_.expect_name("in");
  loop.iterable = parse_tuple({.conditional = false, .before_recursive = true});
  walks_content_ |= is_content(*loop.iterable);
  if (stream_.take_name("if")) {
    const InFrame frame(*this);
    loop.condition = parse_expression();
  }
  loop.recursive = stream_.take_name("recursive");
  watches_.push_back({{"loop"}, {}});
  {
    const Temporarily<int> inside(loop_depth_, loop_depth_ + 1);
    const InFrame frame(*this);
    settle_parameters(loop.target);
    loop.body_frame = frame.number();
    loop.body = parse_block_body({"endfor", "else"});
  }
  loop.uses_loop = loop.recursive || !watches_.back().read.empty();
  watches_.pop_back();
  if (stream_.take().text == "else") {
    const InFrame frame(*this);
    loop.otherwise_frame = frame.number();
    loop.otherwise = parse_last_body("endfor");
  }
  --for_depth_;
  return loop;
}

Statement Parser::parse_set(int line) {
  Target target = parse_target(false, true);
  if (stream_.at_operator("=")) {
    stream_.take();
    ExpressionPtr value = parse_tuple({});
    settle(target);
    return {line, Set{std::move(target), std::move(value)}};
  }
  settle(target);
  const Temporarily<bool> unconditional(in_branch_, false);
  const InFrame frame(*this);
  ExpressionPtr filter = stream_.at_operator("|") ? parse_filter(nullptr) : nullptr;
  Body body = parse_last_body("endset");
  return {line, SetBlock{std::move(target), std::move(filter), std::move(body), frame.number()}};
}

With Parser::parse_with() {
  With with;
  while (!stream_.at_kind(TokenKind::BlockEnd)) {
    if (!with.bindings.empty()) stream_.expect_operator(",");
    Target target = parse_target(false, false);
    stream_.expect_operator("=");
    with.bindings.emplace_back(std::move(target), parse_expression());
  }
  const InFrame frame(*this);
  for (const auto& [target, value] : with.bindings) settle_parameters(target);
  with.frame = frame.number();
  with.body = parse_last_body("endwith");
  return with;
}

FilterBlock Parser::parse_filter_block() {
  const InFrame frame(*this);
  ExpressionPtr filter = parse_filter(nullptr);
  Body body = parse_last_body("endfilter");
  return {std::move(filter), std::move(body), frame.number()};
}

}  // namespace braid::jinja
