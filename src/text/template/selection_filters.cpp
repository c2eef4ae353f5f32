// map, select, reject, selectattr and rejectattr, and the table of all filters.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "text/template/builtins.h"
#include "text/template/interpreter.h"
#include "text/template/item_path.h"
#include "text/template/iterate.h"
#include "text/template/printing.h"

namespace braid::jinja {
namespace {

Value empty_generator() {
  return Value::generator([]() -> std::optional<Value> { return std::nullopt; }, {});
}

// Work that a generator does when it is first asked, so that it fails when it is walked over and not before.
template <typename Prepare>
Value lazily(const Value& input, Prepare prepare) {
  return Value::generator(
      [input, prepare, next = Iterator()]() mutable -> std::optional<Value> {
        if (!next) next = prepare(input);
        return next();
      },
      extent_of(input));
}

Iterator mapped_by_attribute(const Value& input, const Arguments& arguments) {
  Value attribute;
  std::optional<Value> missing;
  for (const auto& [name, value] : arguments.named) {
    if (name == "attribute") {
      attribute = value;
    } else if (name == "default") {
      missing = value;
    } else {
      raise("Unexpected keyword argument '{}'", name);
    }
  }
  ItemPath path(attribute);
  if (missing && !missing->is_none()) path.replace_undefined_by(*missing);
  return [next = iterate(input), path]() mutable -> std::optional<Value> {
    auto item = next();
    if (!item) return std::nullopt;
    return path.of(*item);
  };
}

Value map(Interpreter& interpreter, const Value& input, const Arguments& arguments) {
  if (!truthy(input)) return empty_generator();
  return lazily(input, [&interpreter, arguments](const Value& source) -> Iterator {
    const auto& named = arguments.named;
    const bool by_attribute =
        arguments.positional.empty() &&
        std::any_of(named.begin(), named.end(), [](const auto& pair) { return pair.first == "attribute"; });
    if (by_attribute) return mapped_by_attribute(source, arguments);
    if (arguments.positional.empty()) raise("map requires a filter argument");
    const std::string name = to_text(arguments.positional[0]);
    const Filter filter = find_filter(name);
    if (!filter) raise("no filter named '{}'", name);
    Arguments rest{{arguments.positional.begin() + 1, arguments.positional.end()}, named};
    return [&interpreter, filter, rest, next = iterate(source)]() mutable -> std::optional<Value> {
      auto item = next();
      if (!item) return std::nullopt;
      interpreter.count_steps(1);
      Value result = filter(interpreter, *item, rest);
      interpreter.count_built(result);
      return result;
    };
  });
}

// Keeps the items whose test (of the item, or of an attribute) gives `wanted`.
template <bool wanted, bool of_attribute>
Value select(Interpreter& interpreter, const Value& input, const Arguments& arguments) {
  if (!truthy(input)) return empty_generator();
  return lazily(input, [&interpreter, arguments](const Value& source) -> Iterator {
    const size_t skipped = of_attribute ? 1 : 0;
    if (arguments.positional.size() < skipped) raise("Missing parameter for attribute name");
    const ItemPath path(of_attribute ? arguments.positional[0] : Value());
    Test test = nullptr;
    Arguments rest{{}, arguments.named};
    if (arguments.positional.size() > skipped) {
      const std::string name = to_text(arguments.positional[skipped]);
      test = find_test(name);
      if (!test) raise("no test named '{}'", name);
      rest.positional.assign(arguments.positional.begin() + static_cast<std::ptrdiff_t>(skipped) + 1,
                             arguments.positional.end());
    }
    return [&interpreter, path, test, rest, next = iterate(source)]() mutable -> std::optional<Value> {
      while (auto item = next()) {
        interpreter.count_steps(1);
        const Value tested = path.of(*item);
        if ((test ? test(tested, rest) : truthy(tested)) == wanted) return item;
      }
      return std::nullopt;
    };
  });
}

}  // namespace

Filter find_selection_filter(std::string_view name) {
  if (name == "map") return map;
  if (name == "select") return select<true, false>;
  if (name == "reject") return select<false, false>;
  if (name == "selectattr") return select<true, true>;
  if (name == "rejectattr") return select<false, true>;
  return nullptr;
}

Filter find_filter(std::string_view name) {
  if (const Filter filter = find_text_filter(name)) return filter;
  if (const Filter filter = find_sequence_filter(name)) return filter;
  return find_selection_filter(name);
}

}  // namespace braid::jinja
