// Names and targets: which body sets or reads them, macros and their parameters.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "text/template/parser.h"
#include "text/template/parser_scopes.h"

namespace braid::jinja {

int NameTable::number_of(const std::string& name) {
  const auto [found, fresh] = numbers_.try_emplace(name, static_cast<int>(names_.size()));
  if (fresh) names_.push_back(name);
  return found->second;
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

}  // namespace braid::jinja
