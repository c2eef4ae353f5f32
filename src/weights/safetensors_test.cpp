// SPDX-License-Identifier: Apache-2.0
#include "weights/safetensors.h"

#include <gtest/gtest.h>

#include "weights/test_files.h"

namespace braid {
namespace {

using test::complaint;
using test::expect_contains;
using test::safetensors_bytes;

SafetensorsContents parse(const std::string& bytes) { return parse_safetensors(std::as_bytes(std::span(bytes)), "f"); }

// A header with one tensor "w" of these fields.
std::string one(const std::string& dtype, const std::string& shape, const std::string& offsets) {
  return R"({"w":{"dtype":)" + dtype + R"(,"shape":)" + shape + R"(,"data_offsets":)" + offsets + "}}";
}

std::string two(const std::string& a, const std::string& b) {
  const std::string start = R"({"dtype":"U8","shape":[4],"data_offsets":)";
  return R"({"a":)" + start + a + R"(},"b":)" + start + b + "}}";
}

std::string with_length(uint64_t length, const std::string& rest) {
  std::string out(8, '\0');
  std::memcpy(out.data(), &length, 8);
  return out + rest;
}

struct Hostile {
  const char* what;
  std::string bytes;
  const char* message;
};

std::vector<Hostile> hostile_files() {
  const std::string eight(8, 'x');
  const auto file = [&](const std::string& header) { return safetensors_bytes(header, eight); };
  return {
      {"empty", "", "f: 0 bytes are too short"},
      {"cut in the length", "\x08\0\0", "are too short"},
      {"length beyond the file", with_length(100, "{}"), "claims 100 bytes, the file has 2"},
      {"length over 100 MB", with_length(100'000'001, "{}"), "more than the 100000000 allowed"},
      {"largest length", with_length(UINT64_MAX, "{}"), "more than the 100000000 allowed"},
      {"no header", with_length(0, ""), "f: header: not valid JSON"},
      {"cut short header", file(R"({"w":{"dtype")"), "not valid JSON"},
      {"binary header", file(std::string("\xff\xfe\0\x01", 4)), "not valid JSON"},
      {"invalid UTF-8 in a name", file("{\"\xc3\x28\":1}"), "not valid JSON"},
      {"zero bytes after the header", file("{}" + std::string(6, '\0')), "not valid JSON"},
      {"array header", file("[]"), "header: expected an object, found array"},
      {"number header", file("7"), "header: expected an object, found number"},
      {"null header", file("null"), "header: expected an object, found null"},
      {"deep nesting", file(std::string(100'000, '[')), "nested deeper than 3 levels"},
      {"deep nesting of objects", file(R"({"w":{"shape":{"a":{}}}})"), "nested deeper than 3 levels"},
      {"metadata not an object", file(R"({"__metadata__":[]})"), "__metadata__: expected an object"},
      {"metadata with a number", file(R"({"__metadata__":{"format":1}})"), "__metadata__: format is a number"},
      {"metadata with an object", file(R"({"__metadata__":{"a":{}}})"), "__metadata__: a is a object"},
      {"tensor not an object", file(R"({"w":5})"), "tensor w: expected an object"},
      {"no dtype", file(R"({"w":{"shape":[8],"data_offsets":[0,8]}})"), "tensor w: the header lacks 'dtype'"},
      {"no shape", file(R"({"w":{"dtype":"U8","data_offsets":[0,8]}})"), "tensor w: the header lacks 'shape'"},
      {"no offsets", file(R"({"w":{"dtype":"U8","shape":[8]}})"), "tensor w: the header lacks 'data_offsets'"},
      {"dtype a number", file(one("3", "[8]", "[0,8]")), "tensor w: dtype: expected a string"},
      {"unknown dtype", file(one("\"F4\"", "[8]", "[0,8]")), "tensor w: dtype F4 is unknown"},
      {"dtype in another case", file(one("\"f32\"", "[2]", "[0,8]")), "dtype f32 is unknown"},
      {"shape not a list", file(one("\"U8\"", "8", "[0,8]")), "tensor w: shape: expected a list"},
      {"negative shape", file(one("\"U8\"", "[-8]", "[0,8]")), "shape: expected a whole number from 0"},
      {"two negative sizes", file(one("\"U8\"", "[-2,-4]", "[0,8]")), "shape: expected a whole number from 0"},
      {"fractional shape", file(one("\"U8\"", "[8.0]", "[0,8]")), "shape: expected a whole number from 0"},
      {"shape of a string", file(one("\"U8\"", "[\"8\"]", "[0,8]")), "shape: expected a whole number from 0"},
      {"shape 2^63", file(one("\"U8\"", "[9223372036854775808]", "[0,8]")), "found 9223372036854775808"},
      {"shape 2^64", file(one("\"U8\"", "[18446744073709551616]", "[0,8]")), "shape: expected a whole number"},
      {"product 2^64", file(one("\"U8\"", "[4294967296,4294967296]", "[0,0]")), "[4294967296, 4294967296] overflows"},
      {"bytes 2^64", file(one("\"F32\"", "[4611686018427387904]", "[0,0]")), "overflows"},
      {"product that wraps to 8", file(one("\"U8\"", "[8,2147483648,2147483648,4,2147483649]", "[0,8]")), "overflows"},
      {"one offset", file(one("\"U8\"", "[8]", "[8]")), "data_offsets: expected two numbers"},
      {"three offsets", file(one("\"U8\"", "[8]", "[0,8,8]")), "data_offsets: expected two numbers"},
      {"offsets an object", file(one("\"U8\"", "[8]", "{\"0\":0,\"1\":8}")), "data_offsets: expected two numbers"},
      {"negative offset", file(one("\"U8\"", "[8]", "[-8,0]")), "data_offsets: expected a whole number"},
      {"fractional offset", file(one("\"U8\"", "[8]", "[0,8.5]")), "data_offsets: expected a whole number"},
      {"begin behind end", file(one("\"U8\"", "[8]", "[8,0]")), "begin 8 lies behind end 0"},
      {"end beyond the data", file(one("\"U8\"", "[9]", "[0,9]")), "end 9 lies beyond the 8 bytes"},
      {"huge end", file(one("\"U8\"", "[8]", "[0,9223372036854775807]")), "lies beyond the 8 bytes"},
      {"too few bytes", file(one("\"F32\"", "[3]", "[0,8]")), "F32 [3] needs 12 bytes, data_offsets give 8"},
      {"too many bytes", file(one("\"F32\"", "[1]", "[0,8]")), "F32 [1] needs 4 bytes, data_offsets give 8"},
      {"scalar of the wrong size", file(one("\"F32\"", "[]", "[0,8]")), "F32 [] needs 4 bytes"},
      {"overlap", file(two("[0,4]", "[2,6]")), "tensor b: its bytes overlap those of a"},
      {"the same bytes twice", file(two("[0,4]", "[0,4]")), "overlap"},
      {"hole at the start", safetensors_bytes(two("[1,5]", "[5,9]"), "012345678"),
       "tensor a: 1 bytes before it belong to no tensor"},
      {"hole between", safetensors_bytes(two("[0,4]", "[6,10]"), "0123456789"),
       "tensor b: 2 bytes before it belong to no tensor"},
      {"bytes left over", safetensors_bytes(two("[0,4]", "[4,8]"), "0123456789"), "2 bytes at the end belong to no"},
      {"no tensors but data", file("{}"), "8 bytes at the end belong to no tensor"},
      {"a name twice", file(R"({"w":{"dtype":"U8","shape":[8],"data_offsets":[0,8]},"w":{}})"), "'w' is there twice"},
      {"a field twice", file(R"({"w":{"dtype":"U8","dtype":"I8","shape":[8],"data_offsets":[0,8]}})"),
       "'dtype' is there twice"},
      {"metadata twice", file(R"({"__metadata__":{},"__metadata__":{}})"), "'__metadata__' is there twice"},
      {"a name with line ends", file("{\"a\\nb\":5}"), "tensor a?b: expected an object"},
      {"a very long name", file("{\"" + std::string(5000, 'n') + "\":5}"), "nnn...: expected an object"},
  };
}

TEST(Safetensors, HostileFilesAreRefusedWithOneClearLine) {
  for (const Hostile& hostile : hostile_files()) {
    SCOPED_TRACE(hostile.what);
    const std::string message = complaint([&] { parse(hostile.bytes); });
    expect_contains(message, hostile.message);
    EXPECT_EQ(message.substr(0, 3), "f: ");
    EXPECT_LE(message.size(), 600u);
  }
}

TEST(Safetensors, EveryCutOfAGoodFileIsRefused) {
  const std::string good = safetensors_bytes(two("[0,4]", "[4,8]"), "01234567");
  EXPECT_EQ(parse(good).tensors.size(), 2u);
  for (size_t length = 0; length < good.size(); ++length) complaint([&] { parse(good.substr(0, length)); });
}

TEST(Safetensors, EveryTypeIsRead) {
  struct Case {
    const char* name;
    DType dtype;
  };
  for (const Case& c :
       {Case{"F32", DType::F32}, Case{"BF16", DType::BF16}, Case{"F16", DType::F16}, Case{"F8_E4M3", DType::E4M3},
        Case{"I8", DType::I8}, Case{"U8", DType::U8}, Case{"F8_E8M0", DType::U8}, Case{"I32", DType::I32},
        Case{"I64", DType::I64}, Case{"F64", DType::F64}}) {
    const int64_t bytes = 6 * size_of(c.dtype);
    const std::string header = one("\"" + std::string(c.name) + "\"", "[2,3]", "[0," + std::to_string(bytes) + "]");
    const std::string file = safetensors_bytes(header, std::string(static_cast<size_t>(bytes), 'x'));
    const SafetensorsContents contents = parse(file);
    ASSERT_EQ(contents.tensors.size(), 1u);
    EXPECT_EQ(contents.tensors[0].dtype, c.dtype);
    EXPECT_EQ(contents.tensors[0].type, c.name);
    EXPECT_EQ(contents.tensors[0].elements(), 6);
    EXPECT_EQ(contents.tensors[0].shape, (std::vector<int64_t>{2, 3}));
  }
}

TEST(Safetensors, MetadataScalarsAndEmptyTensorsAreRead) {
  const std::string file = safetensors_bytes(
      R"({"__metadata__":{"format":"pt"},"e":{"dtype":"F32","shape":[0,7],"data_offsets":[4,4]},)"
      R"("s":{"dtype":"F32","shape":[],"data_offsets":[0,4]},"z":{"dtype":"F32","shape":[0],"data_offsets":[0,0]}}   )",
      "abcd");
  const SafetensorsContents contents = parse(file);
  EXPECT_EQ(contents.metadata.at("format"), "pt");
  ASSERT_EQ(contents.tensors.size(), 3u);
  EXPECT_EQ(contents.tensors[0].name, "z");
  EXPECT_EQ(contents.tensors[1].name, "s");
  EXPECT_EQ(contents.tensors[1].elements(), 1);
  EXPECT_EQ(contents.tensors[2].elements(), 0);
}

}  // namespace
}  // namespace braid
