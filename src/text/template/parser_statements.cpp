// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "text/template/parser.h"

namespace braid::jinja {
namespace {

constexpr int kMaxStatementNesting = 60;

std::string describe(const Token& token) {
  switch (token.kind) {
    case TokenKind::Name:
    case TokenKind::Operator:
      return fmt::format("'{}'", token.text);
    case TokenKind::String:
      return "a string";
    case TokenKind::Number:
      return fmt::format("the number {}", token.text);
    case TokenKind::PrintEnd:
      return "the end of the print statement";
    case TokenKind::BlockEnd:
      return "the end of the tag";
    case TokenKind::End:
      return "the end of the template";
    default:
      return "text";
  }
}

std::string_view describe(TokenKind kind) {
  switch (kind) {
    case TokenKind::Name:
      return "a name";
    case TokenKind::BlockEnd:
      return "the end of the tag";
    case TokenKind::PrintEnd:
      return "the end of the print statement";
    default:
      return "another token";
  }
}

// Sets a variable for as long as this lives.
template <typename T>
class Temporarily {
 public:
  Temporarily(T& place, T value) : place_(place), before_(place) { place_ = value; }
  ~Temporarily() { place_ = before_; }
  Temporarily(const Temporarily&) = delete;
  Temporarily& operator=(const Temporarily&) = delete;

 private:
  T& place_;
  T before_;
};

}  // namespace

// Opens a frame inside the current one (or inside none) while it lives.
class Parser::InFrame {
 public:
  explicit InFrame(Parser& parser, bool alone = false) : parser_(parser), before_(parser.frame_) {
    parser_.frames_.push_back({alone ? -1 : before_, {}});
    parser_.frame_ = static_cast<int>(parser_.frames_.size()) - 1;
    number_ = parser_.frame_;
  }
  ~InFrame() { parser_.frame_ = before_; }
  InFrame(const InFrame&) = delete;
  InFrame& operator=(const InFrame&) = delete;
  int number() const { return number_; }

 private:
  Parser& parser_;
  int before_, number_ = 0;
};

bool TokenStream::at_name(std::string_view word, size_t ahead) const {
  return peek(ahead).kind == TokenKind::Name && peek(ahead).text == word;
}

bool TokenStream::at_operator(std::string_view symbol, size_t ahead) const {
  return peek(ahead).kind == TokenKind::Operator && peek(ahead).text == symbol;
}

bool TokenStream::take_name(std::string_view word) {
  const bool here = at_name(word);
  if (here) take();
  return here;
}

bool TokenStream::take_operator(std::string_view symbol) {
  const bool here = at_operator(symbol);
  if (here) take();
  return here;
}

Token TokenStream::expect(TokenKind kind) {
  if (!at_kind(kind)) unexpected(describe(kind));
  return take();
}

void TokenStream::expect_operator(std::string_view symbol) {
  if (!take_operator(symbol)) unexpected(fmt::format("'{}'", symbol));
}

void TokenStream::expect_name(std::string_view word) {
  if (!take_name(word)) unexpected(fmt::format("'{}'", word));
}

void TokenStream::unexpected(std::string_view wanted) const {
  throw SyntaxFault{line(), fmt::format("expected {}, found {}", wanted, describe(peek()))};
}

int NameTable::number_of(const std::string& name) {
  const auto [found, fresh] = numbers_.try_emplace(name, static_cast<int>(names_.size()));
  if (fresh) names_.push_back(name);
  return found->second;
}

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

void Parser::read_name(const std::string& name) {
  for (Watch& watch : watches_) {
    if (watch.awaited.count(name) != 0) watch.read.insert(name);
  }
  frames_[static_cast<size_t>(frame_)].first_set.try_emplace(names_.number_of(name), false);
}

// Inside {% if %} a name may stay unset, so that the context's variable shows through.
void Parser::settle(const Target& target) {
  for (const Target& part : target.parts) settle(part);
  if (target.is_tuple || target.attribute) return;
  frames_[static_cast<size_t>(frame_)].first_set.try_emplace(target.symbol, !in_branch_);
}

// Names that have a value from the start.
void Parser::settle_parameters(const Target& target) {
  const Temporarily<bool> has_value(in_branch_, true);
  settle(target);
}

std::vector<std::vector<int>> Parser::names_set_first() const {
  const auto known_outside = [&](const Frame& frame, int symbol) {
    for (int at = frame.parent; at >= 0; at = frames_[static_cast<size_t>(at)].parent) {
      if (frames_[static_cast<size_t>(at)].first_set.count(symbol) != 0) return true;
    }
    return false;
  };
  std::vector<std::vector<int>> names;
  for (const Frame& frame : frames_) {
    names.emplace_back();
    for (const auto& [symbol, set_first] : frame.first_set) {
      if (set_first && !known_outside(frame, symbol)) names.back().push_back(symbol);
    }
  }
  return names;
}

void Parser::store_name(const std::string& name) {
  if (name == "loop" && for_depth_ > 0) {
    throw SyntaxFault{stream_.line(), "the special variable loop cannot be assigned inside a loop"};
  }
  for (Watch& watch : watches_) watch.awaited.erase(name);
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

void Parser::parse_signature(MacroDefinition& macro) {
  stream_.expect_operator("(");
  while (!stream_.at_operator(")")) {
    if (!macro.parameters.empty()) stream_.expect_operator(",");
    const Token name = stream_.expect(TokenKind::Name);
    for (const auto& [other, symbol] : macro.parameters) {
      if (other == name.text) throw SyntaxFault{name.line, fmt::format("duplicate argument '{}'", name.text)};
    }
    const Target target = name_target(name.text);
    settle_parameters(target);
    macro.parameters.emplace_back(name.text, target.symbol);
    if (stream_.take_operator("=")) {
      macro.defaults.push_back(parse_expression());
    } else if (!macro.defaults.empty()) {
      throw SyntaxFault{name.line, "non-default argument follows default argument"};
    }
  }
  stream_.take();
}

std::shared_ptr<const MacroDefinition> Parser::finish_macro(MacroDefinition macro, std::string_view end) {
  const Temporarily<int> no_loop(loop_depth_, 0);
  const int line = stream_.line();
  watches_.push_back({{"caller", "varargs", "kwargs"}, {}});
  macro.body = parse_last_body(end);
  const auto read = std::move(watches_.back().read);
  watches_.pop_back();
  const auto has_parameter = [&](std::string_view name) {
    return std::any_of(macro.parameters.begin(), macro.parameters.end(),
                       [&](const auto& pair) { return pair.first == name; });
  };
  const auto uses = [&](const char* name) { return read.count(name) != 0 && !has_parameter(name); };
  if (read.count("caller") != 0 && has_parameter("caller")) {
    const size_t required = macro.parameters.size() - macro.defaults.size();
    for (size_t i = 0; i < required; ++i) {
      if (macro.parameters[i].first == "caller") throw SyntaxFault{line, "the special argument caller needs a default"};
    }
  }
  macro.uses_caller = uses("caller");
  macro.uses_varargs = uses("varargs");
  macro.uses_kwargs = uses("kwargs");
  macro.caller_symbol = names_.number_of("caller");
  macro.varargs_symbol = names_.number_of("varargs");
  macro.kwargs_symbol = names_.number_of("kwargs");
  return std::make_shared<const MacroDefinition>(std::move(macro));
}

MacroStatement Parser::parse_macro() {
  MacroDefinition macro;
  macro.name = stream_.expect(TokenKind::Name).text;
  const Target target = name_target(macro.name);
  macro.symbol = target.symbol;
  settle(target);
  const InFrame frame(*this);
  macro.frame = frame.number();
  parse_signature(macro);
  return {finish_macro(std::move(macro), "endmacro")};
}

CallBlock Parser::parse_call_block() {
  MacroDefinition caller;
  caller.name = "caller";
  const int line = stream_.line();
  const int outer = frame_;
  const InFrame frame(*this);
  caller.frame = frame.number();
  if (stream_.at_operator("(")) parse_signature(caller);
  ExpressionPtr call;
  {
    const Temporarily<int> outside(frame_, outer);
    call = parse_expression();
  }
  if (!std::holds_alternative<Call>(call->node)) throw SyntaxFault{line, "expected a call"};
  return {finish_macro(std::move(caller), "endcall"), std::move(call)};
}

FilterBlock Parser::parse_filter_block() {
  const InFrame frame(*this);
  ExpressionPtr filter = parse_filter(nullptr);
  Body body = parse_last_body("endfilter");
  return {std::move(filter), std::move(body), frame.number()};
}

Target Parser::name_target(const std::string& name) {
  static constexpr std::string_view kConstants[] = {"true", "false", "none", "True", "False", "None"};
  if (std::find(std::begin(kConstants), std::end(kConstants), name) != std::end(kConstants)) {
    throw SyntaxFault{stream_.line(), fmt::format("cannot assign to '{}'", name)};
  }
  store_name(name);
  return {.symbol = names_.number_of(name)};
}

Target Parser::parse_single_target() {
  if (!stream_.take_operator("(")) return name_target(stream_.expect(TokenKind::Name).text);
  Target inner = stream_.at_operator(")") ? Target{.is_tuple = true} : parse_target(false, false);
  stream_.expect_operator(")");
  return inner;
}

Target Parser::parse_target(bool in_loop, bool allow_attribute) {
  if (allow_attribute && stream_.at_operator(".", 1)) {
    const std::string name = stream_.expect(TokenKind::Name).text;
    read_name(name);
    stream_.take();
    return {.symbol = names_.number_of(name), .attribute = Value::text(stream_.expect(TokenKind::Name).text)};
  }
  Target first = parse_single_target();
  if (!stream_.at_operator(",")) return first;
  Target tuple{.is_tuple = true};
  tuple.parts.push_back(std::move(first));
  while (stream_.take_operator(",")) {
    const bool ended = stream_.at_operator("=") || stream_.at_operator(")") || stream_.at_kind(TokenKind::BlockEnd) ||
                       (in_loop && stream_.at_name("in"));
    if (ended) break;
    tuple.parts.push_back(parse_single_target());
  }
  return tuple;
}

}  // namespace braid::jinja
