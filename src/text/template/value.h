// Value: what expressions of a template work with, after Python's object model.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "text/template/fault.h"

namespace braid::jinja {

// Wider than the 64 bits of JSON numbers, so that every number a request can hold is exact. Overflow is an error.
using Integer = __int128;

class Value;
class Interpreter;

// An immutable string of Unicode characters; copies share the bytes. Indices and lengths count characters.
class Text {
 public:
  explicit Text(std::string bytes, bool markup = false);
  const std::string& bytes() const { return data_->bytes; }
  size_t length() const { return data_->length; }
  bool ascii() const { return data_->length == data_->bytes.size(); }
  bool markup() const { return data_->markup; }  // came out of |safe or |escape
  const void* identity() const { return data_.get(); }

 private:
  struct Data {
    std::string bytes;
    size_t length;
    bool markup;
  };
  std::shared_ptr<const Data> data_;
};

struct None {};

struct Undefined {
  std::shared_ptr<const std::string> message;  // the error that any use but printing and testing gives
};

// How deep and how large a container is, all levels counted.
struct Extent {
  uint32_t depth = 0;
  uint64_t nodes = 1;
  void add(const Value& inner);  // a limit Fault where the container grows too large
};

struct Sequence {
  std::vector<Value> items;
  Extent extent;
  bool group = false;  // made by |groupby: .grouper and .list name the two items
};

class Dict;

struct Range {
  int64_t start, stop, step;
  int64_t length() const;
};

enum class ViewKind { Keys, Values, Items };

struct View {
  std::shared_ptr<const Dict> dict;
  ViewKind kind;
};

// Gives the next value, or nothing at the end.
using Iterator = std::function<std::optional<Value>()>;

// An iterator as a value: it can be walked once, and has neither length nor elements.
struct Generator {
  Iterator next;
  std::string_view type;
  Extent extent;
};

struct Arguments {
  std::vector<Value> positional;
  std::vector<std::pair<std::string, Value>> named;
};

// What is neither data nor iterator: namespaces, macros, functions, loops, cyclers.
class Object : public std::enable_shared_from_this<Object> {
 public:
  virtual ~Object() = default;
  virtual std::string_view type() const = 0;
  virtual std::string repr() const = 0;
  virtual std::optional<Value> attribute(std::string_view name);
  virtual bool callable() const { return false; }
  virtual Value call(Interpreter& interpreter, Arguments arguments);
  // Drops what this object refers to, which breaks reference cycles at the end of a rendering.
  virtual void forget() {}
};

using List = std::shared_ptr<const Sequence>;
struct Tuple {
  std::shared_ptr<const Sequence> sequence;
};

class Value {
 public:
  using Data = std::variant<Undefined, None, bool, Integer, double, Text, List, Tuple, std::shared_ptr<const Dict>,
                            Range, View, std::shared_ptr<Generator>, std::shared_ptr<Object>>;

  Value() : data_(None{}) {}
  Value(Data data) : data_(std::move(data)) {}
  static Value text(std::string bytes, bool markup = false) { return Value(Data(Text(std::move(bytes), markup))); }
  static Value integer(Integer number) { return Value(Data(number)); }
  static Value boolean(bool value) { return Value(Data(value)); }
  static Value real(double number) { return Value(Data(number)); }
  static Value list(std::vector<Value> items);
  static Value tuple(std::vector<Value> items);
  static Value undefined(std::string message);
  static Value generator(Iterator next, Extent extent, std::string_view type = "generator");
  static Value object(std::shared_ptr<Object> object) { return Value(Data(std::move(object))); }

  template <typename T>
  bool is() const {
    return std::holds_alternative<T>(data_);
  }
  template <typename T>
  const T* as() const {
    return std::get_if<T>(&data_);
  }
  bool is_undefined() const { return is<Undefined>(); }
  bool is_none() const { return is<None>(); }
  const Text* as_text() const { return as<Text>(); }
  const Dict* as_dict() const;
  // The items of a list or tuple, else null.
  const Sequence* as_sequence() const;
  const Data& data() const { return data_; }

 private:
  Data data_;
};

// Keeps the order of insertion. Keys are compared as Python does (1 == 1.0 == True).
class Dict {
 public:
  using Entry = std::pair<Value, Value>;
  // Sets or replaces; an unhashable key is a Fault.
  void set(Value key, Value value);
  const Value* find(const Value& key) const;
  const Value* find(std::string_view key) const;
  const std::vector<Entry>& entries() const { return entries_; }
  const Extent& extent() const { return extent_; }

 private:
  size_t position(const Value& key, size_t hash) const;
  void index(size_t entry, size_t hash);

  std::vector<Entry> entries_;
  std::vector<uint32_t> slots_;  // open addressing, entry + 1; empty while a linear search is as good
  Extent extent_;
};

using DictRef = std::shared_ptr<const Dict>;

inline const Dict* Value::as_dict() const {
  const auto* dict = as<DictRef>();
  return dict ? dict->get() : nullptr;
}

Value make_dict(Dict dict);

// Python's type name: "str", "int", "NoneType", "Undefined" ...
std::string_view type_name(const Value& value);
bool truthy(const Value& value);
Extent extent_of(const Value& value);
// len(value), or nothing where Python has no length.
std::optional<int64_t> length_of(const Value& value);
// Throws the error that an undefined value stands for.
[[noreturn]] void raise_undefined(const Value& value);

}  // namespace braid::jinja
