// Parser: turns a template's source into its syntax tree, with Jinja's grammar.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "text/template/expression_depth.h"
#include "text/template/syntax_tree.h"
#include "text/template/token_stream.h"

namespace braid::jinja {

// Throws SyntaxFault. The tree does not refer to `source`.
Program parse(std::string_view source);

// The names of a template as numbers, and which special names its macros and loops read.
class NameTable {
 public:
  int number_of(const std::string& name);
  const std::string& name_of(int number) const { return names_[static_cast<size_t>(number)]; }
  std::vector<std::string> take() { return std::move(names_); }

 private:
  std::vector<std::string> names_;
  std::unordered_map<std::string, int> numbers_;
};

class Parser {
 public:
  explicit Parser(std::string_view source) : stream_(tokenize(source)) {}
  Program run();

 private:
  // A macro's body, or a loop's, that is being read: which special names it reads before it sets them.
  struct Watch {
    std::set<std::string, std::less<>> awaited, read;
  };
  // A body with names of its own that is being read.
  struct Frame {
    int parent;
    std::map<int, bool> first_set;  // of the names met directly in it: whether the first thing was to set it
  };
  class InFrame;
  // What may stand in a list of expressions that has no brackets of its own.
  struct TupleRules {
    bool conditional = true;        // x if y else z
    bool parenthesized = false;     // round brackets stand around it, so that it may be empty
    bool before_recursive = false;  // the word "recursive" ends it
  };
  struct UnknownName {
    int line;
    std::string message;
  };

  // statements
  Body parse_body(const std::vector<std::string_view>& ends);
  Body parse_block_body(const std::vector<std::string_view>& ends);
  Body parse_last_body(std::string_view end);
  Statement parse_statement();
  Statement parse_special(const Token& keyword);
  If parse_if();
  For parse_for();
  Statement parse_set(int line);
  With parse_with();
  MacroStatement parse_macro();
  CallBlock parse_call_block();
  FilterBlock parse_filter_block();
  Scoped parse_named_block();
  void parse_print(Body& into);
  void parse_signature(MacroDefinition& macro);
  std::shared_ptr<const MacroDefinition> finish_macro(MacroDefinition macro, std::string_view end);
  bool is_content(const Expression& expression) const;
  Target parse_target(bool in_loop, bool allow_attribute);
  Target parse_single_target();
  Target name_target(const std::string& name);

  // expressions
  ExpressionPtr parse_expression();
  ExpressionPtr parse_tuple(const TupleRules& rules);
  ExpressionPtr parse_or();
  ExpressionPtr parse_and();
  ExpressionPtr parse_not();
  ExpressionPtr parse_comparison();
  ExpressionPtr parse_sum();
  ExpressionPtr parse_concatenation();
  ExpressionPtr parse_product();
  ExpressionPtr parse_power();
  ExpressionPtr parse_unary(bool with_filters = true);
  ExpressionPtr parse_primary();
  ExpressionPtr parse_name_or_constant();
  ExpressionPtr parse_string();
  ExpressionPtr parse_list();
  ExpressionPtr parse_dict();
  ExpressionPtr parse_postfix(ExpressionPtr inner);
  ExpressionPtr parse_filters(ExpressionPtr inner);
  ExpressionPtr parse_filter(ExpressionPtr input);
  ExpressionPtr parse_test(ExpressionPtr input);
  ExpressionPtr parse_subscript(ExpressionPtr object);
  ExpressionPtr parse_attribute(ExpressionPtr object);
  CallArguments parse_arguments();
  std::string parse_dotted_name();
  void note_unknown(std::string message, int line);

  template <typename Node>
  static ExpressionPtr make(int line, Node node) {
    ExpressionNode held(std::move(node));
    const int depth = checked_depth(held, line);
    return std::make_unique<Expression>(Expression{line, depth, std::move(held)});
  }
  ExpressionPtr binary(int line, Arithmetic operation, ExpressionPtr left, ExpressionPtr right);

  void read_name(const std::string& name);
  void store_name(const std::string& name);
  // Notes that the current frame sets the names of a target.
  void settle(const Target& target);
  void settle_parameters(const Target& target);
  std::vector<std::vector<int>> names_set_first() const;

  TokenStream stream_;
  NameTable names_;
  std::vector<Watch> watches_;
  std::vector<UnknownName> unknown_;  // filters and tests that do not exist and are surely compiled
  bool in_branch_ = false;            // directly inside {% if %}, where an unknown filter matters only when reached
  int loop_depth_ = 0;                // loops around, of which break and continue may speak
  int for_depth_ = 0;                 // loops around, through macros too
  int nesting_ = 0;
  std::vector<Frame> frames_ = {{-1, {}}};
  int frame_ = 0;
  bool walks_content_ = false;
};

}  // namespace braid::jinja
