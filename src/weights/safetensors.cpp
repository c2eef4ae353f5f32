// SPDX-License-Identifier: Apache-2.0
#include "weights/safetensors.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <unordered_set>

#include "base/error.h"
#include "base/utf8.h"

namespace braid {
namespace {

constexpr uint64_t kMaxHeaderBytes = 100'000'000;  // the format's own limit
constexpr size_t kLengthBytes = 8;
constexpr int kHeaderDepth = 3;  // header, tensor, shape

std::optional<DType> dtype_from(std::string_view name) {
  if (name == "F32") return DType::F32;
  if (name == "BF16") return DType::BF16;
  if (name == "F16") return DType::F16;
  if (name == "F8_E4M3") return DType::E4M3;
  if (name == "I8") return DType::I8;
  if (name == "U8" || name == "F8_E8M0") return DType::U8;
  if (name == "I32") return DType::I32;
  if (name == "I64") return DType::I64;
  if (name == "F64") return DType::F64;
  return std::nullopt;
}

int64_t read_count(const nlohmann::json& value, std::string_view what) {
  if (!value.is_number_unsigned() || value.get<uint64_t>() > INT64_MAX)
    fail("{}: expected a whole number from 0 to 2^63 - 1, found {}", what, printable(value.dump()));
  return value.get<int64_t>();
}

const nlohmann::json& field(const nlohmann::json& entry, const char* key) {
  const auto found = entry.find(key);
  if (found == entry.end()) fail("the header lacks '{}'", key);
  return *found;
}

std::vector<int64_t> read_shape(const nlohmann::json& entry) {
  const nlohmann::json& stored = field(entry, "shape");
  if (!stored.is_array()) fail("shape: expected a list, found {}", stored.type_name());
  std::vector<int64_t> shape;
  for (const nlohmann::json& dim : stored) shape.push_back(read_count(dim, "shape"));
  return shape;
}

int64_t bytes_needed(const StoredTensor& tensor) {
  int64_t bytes = size_of(tensor.dtype);
  for (const int64_t dim : tensor.shape)
    if (__builtin_mul_overflow(bytes, dim, &bytes)) fail("shape {} overflows", describe_shape(tensor.shape));
  return bytes;
}

StoredTensor read_tensor(const nlohmann::json& entry, std::span<const std::byte> data) {
  if (!entry.is_object()) fail("expected an object in the header, found {}", entry.type_name());
  StoredTensor tensor;
  const nlohmann::json& type = field(entry, "dtype");
  if (!type.is_string()) fail("dtype: expected a string, found {}", type.type_name());
  tensor.type = type.get<std::string>();
  const std::optional<DType> dtype = dtype_from(tensor.type);
  if (!dtype) fail("dtype {} is unknown here", printable(tensor.type));
  tensor.dtype = *dtype;
  tensor.shape = read_shape(entry);
  const nlohmann::json& offsets = field(entry, "data_offsets");
  if (!offsets.is_array() || offsets.size() != 2) fail("data_offsets: expected two numbers");
  const int64_t begin = read_count(offsets[0], "data_offsets"), end = read_count(offsets[1], "data_offsets");
  if (begin > end) fail("data_offsets: begin {} lies behind end {}", begin, end);
  if (end > std::ssize(data))
    fail("data_offsets: end {} lies beyond the {} bytes of data in the file (is it cut short?)", end, data.size());
  if (const int64_t needed = bytes_needed(tensor); needed != end - begin)
    fail("{} {} needs {} bytes, data_offsets give {}", tensor.type, describe_shape(tensor.shape), needed, end - begin);
  tensor.bytes = data.subspan(static_cast<size_t>(begin), static_cast<size_t>(end - begin));
  return tensor;
}

// The format wants every byte of the data to belong to exactly one tensor.
void check_cover(std::vector<StoredTensor>& tensors, std::span<const std::byte> data) {
  std::ranges::sort(tensors, {},
                    [](const StoredTensor& tensor) { return std::pair(tensor.bytes.data(), tensor.bytes.size()); });
  const std::byte* expected = data.data();
  const StoredTensor* before = nullptr;
  for (const StoredTensor& tensor : tensors) {
    const std::byte* begin = tensor.bytes.data();
    if (begin < expected)
      fail("tensor {}: its bytes overlap those of {}", printable(tensor.name), printable(before->name));
    if (begin > expected)
      fail("tensor {}: {} bytes before it belong to no tensor", printable(tensor.name), begin - expected);
    expected = begin + tensor.bytes.size();
    before = &tensor;
  }
  if (const auto rest = data.data() + data.size() - expected; rest != 0)
    fail("{} bytes at the end belong to no tensor", rest);
}

std::string_view header_of(std::span<const std::byte> bytes) {
  if (bytes.size() < kLengthBytes) fail("{} bytes are too short for a safetensors file", bytes.size());
  uint64_t length = 0;
  for (size_t i = kLengthBytes; i-- > 0;) length = length << 8 | static_cast<uint64_t>(bytes[i]);
  if (length > kMaxHeaderBytes)
    fail("the header claims {} bytes, more than the {} allowed: not a safetensors file?", length, kMaxHeaderBytes);
  if (length > bytes.size() - kLengthBytes)
    fail("the header claims {} bytes, the file has {} after its length: cut short?", length,
         bytes.size() - kLengthBytes);
  return {reinterpret_cast<const char*>(bytes.data()) + kLengthBytes, static_cast<size_t>(length)};
}

void read_metadata(const nlohmann::json& entry, std::map<std::string, std::string>& metadata) {
  if (!entry.is_object()) fail("__metadata__: expected an object, found {}", entry.type_name());
  for (const auto& [key, value] : entry.items()) {
    if (!value.is_string()) fail("__metadata__: {} is a {}, not a string", printable(key), value.type_name());
    metadata[key] = value.get<std::string>();
  }
}

// Refuses nesting deeper than `depth` and keys that an object has twice.
class FlatCheck : public nlohmann::json::json_sax_t {
 public:
  explicit FlatCheck(int depth) : depth_(static_cast<size_t>(depth)) {}
  bool start_object(size_t) override { return open(); }
  bool start_array(size_t) override { return open(); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }
  bool key(string_t& name) override {
    if (!keys_.back().insert(name).second) fail("'{}' is there twice", printable(name));
    return true;
  }
  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_integer(number_integer_t) override { return true; }
  bool number_unsigned(number_unsigned_t) override { return true; }
  bool number_float(number_float_t, const string_t&) override { return true; }
  bool string(string_t&) override { return true; }
  bool binary(binary_t&) override { return true; }
  bool parse_error(size_t, const std::string&, const nlohmann::json::exception& error) override {
    fail("not valid JSON: {}", printable(error.what()));
  }

 private:
  bool open() {
    if (keys_.size() == depth_) fail("nested deeper than {} levels", depth_);
    keys_.emplace_back();
    return true;
  }
  bool close() {
    keys_.pop_back();
    return true;
  }
  size_t depth_;
  std::vector<std::unordered_set<std::string>> keys_;  // of the open objects; empty for arrays
};

}  // namespace

int64_t StoredTensor::elements() const { return std::ssize(bytes) / size_of(dtype); }

std::string printable(std::string_view name) {
  constexpr size_t kLongest = 200;
  std::string line = to_valid_utf8(name.substr(0, kLongest));
  for (char& c : line)
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7F) c = '?';
  return name.size() > kLongest ? line + "..." : line;
}

std::string describe_shape(std::span<const int64_t> shape) {
  constexpr size_t kShown = 8;
  return fmt::format("[{}{}]", fmt::join(shape.first(std::min(shape.size(), kShown)), ", "),
                     shape.size() > kShown ? ", ..." : "");
}

nlohmann::json parse_flat_json(std::string_view text, int depth) {
  // The parser would take a zero byte for the end of the text.
  if (const size_t zero = text.find('\0'); zero != std::string_view::npos)
    fail("not valid JSON: byte {} is zero", zero);
  try {
    // A pass of its own, because the library's parser with a callback takes time quadratic in the number of keys.
    FlatCheck check(depth);
    nlohmann::json::sax_parse(text, &check);
    return nlohmann::json::parse(text);
  } catch (const nlohmann::json::exception& error) {
    fail("not valid JSON: {}", printable(error.what()));
  }
}

SafetensorsContents parse_safetensors(std::span<const std::byte> bytes, const std::string& file) {
  return with_context(file, [&] {
    const std::string_view text = header_of(bytes);
    const nlohmann::json header = with_context("header", [&] { return parse_flat_json(text, kHeaderDepth); });
    if (!header.is_object()) fail("header: expected an object, found {}", header.type_name());
    const std::span<const std::byte> data = bytes.subspan(kLengthBytes + text.size());
    SafetensorsContents contents;
    for (const auto& [name, entry] : header.items()) {
      if (name == "__metadata__") {
        read_metadata(entry, contents.metadata);
        continue;
      }
      contents.tensors.push_back(
          with_context("tensor " + printable(name), [&, &entry = entry] { return read_tensor(entry, data); }));
      contents.tensors.back().name = name;
      contents.tensors.back().file = file;
    }
    check_cover(contents.tensors, data);
    return contents;
  });
}

}  // namespace braid
