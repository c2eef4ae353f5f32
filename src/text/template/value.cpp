// SPDX-License-Identifier: Apache-2.0
#include "text/template/value.h"

#include <algorithm>

#include "base/utf8.h"
#include "text/template/compare.h"

namespace braid::jinja {
namespace {

constexpr size_t kLinearEntries = 12;

size_t count_characters(std::string_view bytes) {
  size_t count = 0;
  for (const char byte : bytes) count += (static_cast<uint8_t>(byte) & 0xC0) != 0x80;
  return count;
}

Value sequence_value(std::vector<Value> items, bool tuple) {
  auto sequence = std::make_shared<Sequence>();
  for (const Value& item : items) sequence->extent.add(item);
  sequence->items = std::move(items);
  if (tuple) return Value(Value::Data(Tuple{std::move(sequence)}));
  return Value(Value::Data(List(std::move(sequence))));
}

}  // namespace

Text::Text(std::string bytes, bool markup) {
  check_text_size(bytes.size());
  const size_t length = count_characters(bytes);
  data_ = std::make_shared<const Data>(Data{std::move(bytes), length, markup});
}

void Extent::add(const Value& inner) {
  const Extent other = extent_of(inner);
  depth = std::max(depth, other.depth + 1);
  nodes += other.nodes;
  if (depth > kMaxValueDepth) raise_limit("a value is nested deeper than {} levels", kMaxValueDepth);
  if (nodes > kMaxValueNodes) raise_limit("a value holds more than {} values", kMaxValueNodes);
}

int64_t Range::length() const {
  if (step > 0) return start < stop ? (stop - start - 1) / step + 1 : 0;
  return start > stop ? (start - stop - 1) / -step + 1 : 0;
}

std::optional<Value> Object::attribute(std::string_view) { return std::nullopt; }

Value Object::call(Interpreter&, Arguments) { raise("'{}' object is not callable", type()); }

Value Value::list(std::vector<Value> items) { return sequence_value(std::move(items), false); }

Value Value::tuple(std::vector<Value> items) { return sequence_value(std::move(items), true); }

Value Value::undefined(std::string message) {
  return Value(Data(Undefined{std::make_shared<const std::string>(std::move(message))}));
}

Value Value::generator(Iterator next, Extent extent, std::string_view type) {
  extent.depth += 1;
  if (extent.depth > kMaxValueDepth) raise_limit("a value is nested deeper than {} levels", kMaxValueDepth);
  return Value(Data(std::make_shared<Generator>(Generator{std::move(next), type, extent})));
}

const Sequence* Value::as_sequence() const {
  if (const auto* list = as<List>()) return list->get();
  if (const auto* tuple = as<Tuple>()) return tuple->sequence.get();
  return nullptr;
}

Value make_dict(Dict dict) { return Value(Value::Data(DictRef(std::make_shared<const Dict>(std::move(dict))))); }

size_t Dict::position(const Value& key, size_t hash) const {
  if (slots_.empty()) {
    for (size_t i = 0; i < entries_.size(); ++i) {
      if (equals(entries_[i].first, key)) return i;
    }
    return entries_.size();
  }
  const size_t mask = slots_.size() - 1;
  for (size_t slot = hash & mask; slots_[slot] != 0; slot = (slot + 1) & mask) {
    const size_t entry = slots_[slot] - 1;
    if (equals(entries_[entry].first, key)) return entry;
  }
  return entries_.size();
}

void Dict::index(size_t entry, size_t hash) {
  const size_t mask = slots_.size() - 1;
  size_t slot = hash & mask;
  while (slots_[slot] != 0) slot = (slot + 1) & mask;
  slots_[slot] = static_cast<uint32_t>(entry + 1);
}

void Dict::set(Value key, Value value) {
  const size_t hash = hash_of(key);
  const size_t at = position(key, hash);
  if (at < entries_.size()) extent_.nodes -= extent_of(entries_[at].second).nodes;
  extent_.add(value);
  if (at < entries_.size()) {
    entries_[at].second = std::move(value);
    return;
  }
  extent_.add(key);
  entries_.emplace_back(std::move(key), std::move(value));
  if (entries_.size() <= kLinearEntries) return;
  if (entries_.size() * 2 > slots_.size()) {
    size_t size = 32;
    while (size < entries_.size() * 4) size *= 2;
    slots_.assign(size, 0);
    for (size_t i = 0; i < entries_.size(); ++i) index(i, hash_of(entries_[i].first));
  } else {
    index(at, hash);
  }
}

const Value* Dict::find(const Value& key) const {
  const size_t hash = hash_of(key);
  const size_t at = position(key, hash);
  return at < entries_.size() ? &entries_[at].second : nullptr;
}

const Value* Dict::find(std::string_view key) const {
  const auto matches = [&](const Entry& entry) {
    const Text* text = entry.first.as_text();
    return text && text->bytes() == key;
  };
  if (slots_.empty()) {
    const auto found = std::find_if(entries_.begin(), entries_.end(), matches);
    return found == entries_.end() ? nullptr : &found->second;
  }
  const size_t mask = slots_.size() - 1;
  for (size_t slot = hash_of_text(key) & mask; slots_[slot] != 0; slot = (slot + 1) & mask) {
    const Entry& entry = entries_[slots_[slot] - 1];
    if (matches(entry)) return &entry.second;
  }
  return nullptr;
}

std::string_view type_name(const Value& value) {
  struct Namer {
    std::string_view operator()(const Undefined&) const { return "Undefined"; }
    std::string_view operator()(const None&) const { return "NoneType"; }
    std::string_view operator()(bool) const { return "bool"; }
    std::string_view operator()(Integer) const { return "int"; }
    std::string_view operator()(double) const { return "float"; }
    std::string_view operator()(const Text& text) const { return text.markup() ? "Markup" : "str"; }
    std::string_view operator()(const List&) const { return "list"; }
    std::string_view operator()(const Tuple&) const { return "tuple"; }
    std::string_view operator()(const DictRef&) const { return "dict"; }
    std::string_view operator()(const Range&) const { return "range"; }
    std::string_view operator()(const View& view) const {
      return view.kind == ViewKind::Keys ? "dict_keys" : view.kind == ViewKind::Values ? "dict_values" : "dict_items";
    }
    std::string_view operator()(const std::shared_ptr<Generator>& generator) const { return generator->type; }
    std::string_view operator()(const std::shared_ptr<Object>& object) const { return object->type(); }
  };
  return std::visit(Namer{}, value.data());
}

bool truthy(const Value& value) {
  if (value.is_undefined() || value.is_none()) return false;
  if (const auto* flag = value.as<bool>()) return *flag;
  if (const auto* number = value.as<Integer>()) return *number != 0;
  if (const auto* number = value.as<double>()) return *number != 0;
  const auto length = length_of(value);
  return !length || *length > 0;
}

Extent extent_of(const Value& value) {
  if (const Sequence* sequence = value.as_sequence()) return sequence->extent;
  if (const Dict* dict = value.as_dict()) return dict->extent();
  if (const auto* view = value.as<View>()) return view->dict->extent();
  if (const auto* generator = value.as<std::shared_ptr<Generator>>()) return (*generator)->extent;
  if (const Text* text = value.as_text()) return {0, 1 + text->bytes().size() / 256};
  return {};
}

std::optional<int64_t> length_of(const Value& value) {
  if (value.is_undefined()) return 0;
  if (const Text* text = value.as_text()) return static_cast<int64_t>(text->length());
  if (const Sequence* sequence = value.as_sequence()) return static_cast<int64_t>(sequence->items.size());
  if (const Dict* dict = value.as_dict()) return static_cast<int64_t>(dict->entries().size());
  if (const auto* view = value.as<View>()) return static_cast<int64_t>(view->dict->entries().size());
  if (const auto* range = value.as<Range>()) return range->length();
  return std::nullopt;
}

void raise_undefined(const Value& value) {
  const auto* undefined = value.as<Undefined>();
  throw Fault{TemplateFault::Runtime, undefined ? *undefined->message : std::string("value is undefined")};
}

}  // namespace braid::jinja
