// The syntax tree of a template: expressions, statements and the program they make.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "text/template/builtins.h"
#include "text/template/numbers.h"
#include "text/template/value.h"

namespace braid::jinja {

struct Expression;
using ExpressionPtr = std::unique_ptr<Expression>;

struct Constant {
  Value value;
};
struct Name {
  int symbol;
};
struct TupleDisplay {
  std::vector<ExpressionPtr> items;
};
struct ListDisplay {
  std::vector<ExpressionPtr> items;
};
struct DictDisplay {
  std::vector<std::pair<ExpressionPtr, ExpressionPtr>> entries;
};
struct Unary {
  char operation;  // '-', '+' or '!' for not
  ExpressionPtr operand;
};
struct Binary {
  Arithmetic operation;
  ExpressionPtr left, right;
};
struct Logical {
  bool is_and;
  ExpressionPtr left, right;
};
enum class Comparator { Equal, NotEqual, Less, LessEqual, Greater, GreaterEqual, In, NotIn };
struct Comparison {
  ExpressionPtr first;
  std::vector<std::pair<Comparator, ExpressionPtr>> rest;
};
struct Concatenation {
  std::vector<ExpressionPtr> parts;
};
struct Conditional {
  ExpressionPtr test, yes, no;  // `no` may be null
};
struct AttributeAccess {
  ExpressionPtr object;
  Text name;
};
struct ItemAccess {
  ExpressionPtr object, key;
};
struct SliceAccess {
  ExpressionPtr object, start, stop, step;  // the last three may be null
};
struct CallArguments {
  std::vector<ExpressionPtr> positional;
  std::vector<std::pair<std::string, ExpressionPtr>> named;
  ExpressionPtr spread, named_spread;  // *x and **x, may be null
};
struct Call {
  ExpressionPtr callee;
  CallArguments arguments;
};
// A null input is the text that the enclosing filter block or set block captured.
struct FilterUse {
  ExpressionPtr input;
  std::string name;
  Filter filter;  // null: no such filter, which only matters when it is reached
  CallArguments arguments;
};
struct TestUse {
  ExpressionPtr input;
  std::string name;
  Test test;  // null: no such test
  CallArguments arguments;
};

using ExpressionNode =
    std::variant<Constant, Name, TupleDisplay, ListDisplay, DictDisplay, Unary, Binary, Logical, Comparison,
                 Concatenation, Conditional, AttributeAccess, ItemAccess, SliceAccess, Call, FilterUse, TestUse>;

struct Expression {
  int line;
  int depth;  // longest path to a leaf
  ExpressionNode node;
};

struct Statement;
using Body = std::vector<Statement>;

// What an assignment assigns to: a name, an attribute of a namespace, or several targets.
struct Target {
  int symbol = -1;
  std::optional<Value> attribute;
  std::vector<Target> parts;  // where not empty or `is_tuple`: a tuple to unpack
  bool is_tuple = false;
};

struct Data {
  std::string text;
};
struct Output {
  ExpressionPtr value;
};
struct If {
  std::vector<std::pair<ExpressionPtr, Body>> branches;
  Body otherwise;
};
struct For {
  Target target;
  ExpressionPtr iterable, condition;  // `condition` may be null
  Body body, otherwise;
  bool recursive = false;
  bool uses_loop = false;
  int body_frame = 0, otherwise_frame = 0;  // see Program::frames
};
struct Set {
  Target target;
  ExpressionPtr value;
};
struct SetBlock {
  Target target;
  ExpressionPtr filter;  // may be null
  Body body;
  int frame = 0;
};
struct MacroDefinition {
  std::string name;
  int symbol = -1;
  std::vector<std::pair<std::string, int>> parameters;
  std::vector<ExpressionPtr> defaults;  // of the last parameters
  Body body;
  bool uses_caller = false, uses_varargs = false, uses_kwargs = false;
  int caller_symbol = -1, varargs_symbol = -1, kwargs_symbol = -1;
  int frame = 0;
};
struct MacroStatement {
  std::shared_ptr<const MacroDefinition> definition;
};
struct CallBlock {
  std::shared_ptr<const MacroDefinition> caller;
  ExpressionPtr call;  // holds a Call
};
struct FilterBlock {
  ExpressionPtr filter;
  Body body;
  int frame = 0;
};
struct With {
  std::vector<std::pair<Target, ExpressionPtr>> bindings;
  Body body;
  int frame = 0;
};
// A body with names of its own: {% generation %}, and with `from_root` {% block %}, which does not see local names.
struct Scoped {
  Body body;
  int frame = 0;
  bool from_root = false;
};
struct Break {};
struct Continue {};

struct Statement {
  int line;
  std::variant<Data, Output, If, For, Set, SetBlock, MacroStatement, CallBlock, FilterBlock, With, Scoped, Break,
               Continue>
      node;
};

struct Program {
  Body body;
  std::vector<std::string> symbols;  // names of variables, by number
  int loop_symbol = -1;
  // For each body with names of its own (frame 0 is the template itself): the names that it sets before it reads them.
  // They are undefined until then, even where the context has a variable of that name.
  std::vector<std::vector<int>> frames;
  bool walks_content = false;  // some loop goes over a `content`
};

}  // namespace braid::jinja
