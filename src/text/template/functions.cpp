// SPDX-License-Identifier: Apache-2.0
#include "text/template/functions.h"

#include <array>
#include <ctime>
#include <unordered_map>

#include "text/template/arguments.h"
#include "text/template/interpreter.h"
#include "text/template/iterate.h"
#include "text/template/numbers.h"
#include "text/template/printing.h"

namespace braid::jinja {
namespace {

constexpr int64_t kMaxRange = 100'000;

class Function : public Object {
 public:
  Function(std::string name, FunctionBody body) : name_(std::move(name)), body_(std::move(body)) {}
  std::string_view type() const override { return "function"; }
  std::string repr() const override { return fmt::format("<function {}>", name_); }
  bool callable() const override { return true; }
  Value call(Interpreter& interpreter, Arguments arguments) override { return body_(interpreter, arguments); }

 private:
  std::string name_;
  FunctionBody body_;
};

class Cycler : public Object {
 public:
  explicit Cycler(std::vector<Value> items) : items_(std::move(items)) {}
  std::string_view type() const override { return "Cycler"; }
  std::string repr() const override { return "<Cycler object>"; }
  void forget() override { items_.clear(); }

  std::optional<Value> attribute(std::string_view name) override {
    if (items_.empty()) return std::nullopt;
    if (name == "current") return items_[at_];
    if (name == "items") return Value::tuple(items_);
    if (name == "pos") return Value::integer(static_cast<int64_t>(at_));
    const auto self = std::static_pointer_cast<Cycler>(shared_from_this());
    if (name == "next") {
      return make_function("next", [self](Interpreter&, const Arguments& arguments) {
        Bound(arguments, {.function = "next"});
        const size_t now = self->at_;
        self->at_ = (now + 1) % self->items_.size();
        return self->items_[now];
      });
    }
    if (name != "reset") return std::nullopt;
    return make_function("reset", [self](Interpreter&, const Arguments&) {
      self->at_ = 0;
      return Value();
    });
  }

 private:
  std::vector<Value> items_;
  size_t at_ = 0;
};

class Joiner : public Object {
 public:
  explicit Joiner(Value separator) : separator_(std::move(separator)) {}
  std::string_view type() const override { return "Joiner"; }
  std::string repr() const override { return "<Joiner object>"; }
  bool callable() const override { return true; }
  Value call(Interpreter&, Arguments arguments) override {
    Bound(arguments, {.function = "joiner"});
    const bool first = !used_;
    used_ = true;
    return first ? Value::text("") : separator_;
  }
  std::optional<Value> attribute(std::string_view name) override {
    if (name == "sep") return separator_;
    if (name == "used") return Value::boolean(used_);
    return std::nullopt;
  }
  void forget() override { separator_ = {}; }

 private:
  Value separator_;
  bool used_ = false;
};

// dict(mapping or pairs, **named)
Dict make_mapping(const Arguments& arguments) {
  Dict dict;
  if (arguments.positional.size() > 1) raise("dict expected at most 1 argument, got {}", arguments.positional.size());
  if (!arguments.positional.empty()) {
    const Value& source = arguments.positional[0];
    if (const Dict* other = source.as_dict()) {
      dict = *other;
    } else {
      for (const Value& pair : to_items(source)) {
        std::vector<Value> parts = to_items(pair);
        if (parts.size() != 2) raise("dictionary update sequence element has length {}; 2 is required", parts.size());
        dict.set(std::move(parts[0]), std::move(parts[1]));
      }
    }
  }
  for (const auto& [name, value] : arguments.named) dict.set(Value::text(name), value);
  return dict;
}

Value make_range(Interpreter&, const Arguments& arguments) {
  const Bound bound(arguments,
                    {.function = "range", .parameters = {"start", "stop", "step"}, .required = 1, .unnamed = 3});
  Range range{0, 0, 1};
  range.start = bound.given(1) ? bound.integer(0, 0) : 0;
  range.stop = bound.integer(bound.given(1) ? 1 : 0, 0);
  range.step = bound.integer(2, 1);
  if (range.step == 0) raise("range() arg 3 must not be zero");
  constexpr int64_t kBound = int64_t{1} << 60;
  for (const int64_t number : {range.start, range.stop, range.step}) {
    if (number > kBound || number < -kBound) raise_limit("range() of numbers that are too large");
  }
  if (range.length() > kMaxRange) raise_limit("range too big: at most {} numbers", kMaxRange);
  return Value(Value::Data(range));
}

Value make_namespace(Interpreter& interpreter, const Arguments& arguments) {
  auto made = std::make_shared<Namespace>(make_mapping(arguments));
  interpreter.remember(made);
  return Value::object(std::move(made));
}

Value make_cycler(Interpreter& interpreter, const Arguments& arguments) {
  if (arguments.positional.empty() || !arguments.named.empty()) raise("at least one item has to be provided");
  auto made = std::make_shared<Cycler>(arguments.positional);
  interpreter.remember(made);
  return Value::object(std::move(made));
}

Value make_joiner(Interpreter& interpreter, const Arguments& arguments) {
  const Bound bound(arguments, {.function = "joiner", .parameters = {"sep"}});
  auto made = std::make_shared<Joiner>(bound.given(0) ? bound.value(0) : Value::text(", "));
  interpreter.remember(made);
  return Value::object(std::move(made));
}

Value raise_exception(Interpreter&, const Arguments& arguments) {
  const Bound bound(arguments, {.function = "raise_exception", .parameters = {"message"}, .required = 1});
  throw Fault{TemplateFault::Raised, to_text(bound.value(0))};
}

Value strftime_now(Interpreter& interpreter, const Arguments& arguments) {
  const Bound bound(arguments, {.function = "strftime_now", .parameters = {"format"}, .required = 1});
  const std::string format = bound.text(0).value_or("");
  if (format.empty()) return Value::text("");
  const std::tm now = interpreter.now();
  std::string out(format.size() * 4 + 256, '\0');
  const size_t bytes = std::strftime(out.data(), out.size(), format.c_str(), &now);
  out.resize(bytes);
  return Value::text(std::move(out));
}

}  // namespace

Value make_function(std::string name, FunctionBody body) {
  return Value::object(std::make_shared<Function>(std::move(name), std::move(body)));
}

std::string Namespace::repr() const {
  // Namespaces can hold each other, in a circle or a long chain.
  constexpr int kMaxChain = 100;
  static thread_local int chain = 0;
  if (printing_) return "<Namespace {...}>";
  if (chain >= kMaxChain) raise_limit("namespaces nested deeper than {} levels", kMaxChain);
  struct Mark {
    explicit Mark(bool& flag) : printing(flag) {
      printing = true;
      ++chain;
    }
    ~Mark() {
      printing = false;
      --chain;
    }
    bool& printing;
  } mark(printing_);
  return fmt::format("<Namespace {}>", jinja::repr(make_dict(attributes_)));
}

std::optional<Value> Namespace::attribute(std::string_view name) {
  const Value* found = attributes_.find(name);
  return found ? std::optional(*found) : std::nullopt;
}

std::optional<Value> global_value(std::string_view name) {
  using Body = Value (*)(Interpreter&, const Arguments&);
  static const std::unordered_map<std::string_view, Body> kGlobals = {
      {"range", make_range},
      {"dict", [](Interpreter&, const Arguments& arguments) { return make_dict(make_mapping(arguments)); }},
      {"namespace", make_namespace},
      {"cycler", make_cycler},
      {"joiner", make_joiner},
      {"raise_exception", raise_exception},
      {"strftime_now", strftime_now},
  };
  const auto found = kGlobals.find(name);
  if (found == kGlobals.end()) return std::nullopt;
  return make_function(std::string(name), found->second);
}

}  // namespace braid::jinja
