// SPDX-License-Identifier: Apache-2.0
#include "weights/checkpoint.h"

#include <gtest/gtest.h>

#include "weights/test_files.h"

namespace braid {
namespace {

using test::complaint;
using test::expect_contains;
using test::FileWriter;
using test::TemporaryFolder;
using test::write_file;

void write_floats(const std::filesystem::path& file, const std::vector<std::string>& names) {
  FileWriter writer;
  float value = 0;
  for (const std::string& name : names) writer.add(name, "F32", {2}, std::vector{value += 1, -value});
  writer.write(file);
}

void write_index(const TemporaryFolder& folder, const Json& map) {
  write_file(folder / "model.safetensors.index.json",
             Json{{"metadata", {{"total_size", 16}}}, {"weight_map", map}}.dump());
}

float first_value(const StoredTensor& tensor) {
  float value;
  std::memcpy(&value, tensor.bytes.data(), sizeof value);
  return value;
}

TEST(Checkpoint, OneFileIsReadOrMapped) {
  const TemporaryFolder folder;
  write_floats(folder / "model.safetensors", {"a", "b"});
  write_floats(folder / "expected.safetensors", {"c"});
  for (const auto mode : {MappedFile::Mode::Map, MappedFile::Mode::Read}) {
    const Checkpoint checkpoint(folder.path(), {.mode = mode});
    EXPECT_EQ(checkpoint.tensors().size(), 2u);
    EXPECT_EQ(first_value(checkpoint.at("b")), 2.0f);
    EXPECT_EQ(checkpoint.find("c"), nullptr);
    EXPECT_EQ(checkpoint.at("a").file, (folder / "model.safetensors").string());
    EXPECT_EQ(complaint([&] { checkpoint.at("c"); }), folder.path().string() + ": tensor c is missing");
  }
  EXPECT_EQ(Checkpoint::open_file(folder / "expected.safetensors").tensors().size(), 1u);
}

TEST(Checkpoint, ShardsAreJoinedAndLinksFollowed) {
  const TemporaryFolder folder;
  write_floats(folder / "one.safetensors", {"a"});
  write_floats(folder / "blobs/xyz", {"b", "c"});
  std::filesystem::create_symlink(std::filesystem::path("blobs") / "xyz", folder / "two.safetensors");
  write_index(folder, {{"a", "one.safetensors"}, {"b", "two.safetensors"}});
  const Checkpoint checkpoint(folder.path());
  EXPECT_EQ(checkpoint.tensors().size(), 3u);
  EXPECT_EQ(first_value(checkpoint.at("a")), 1.0f);
  EXPECT_EQ(first_value(checkpoint.at("c")), 2.0f);
}

TEST(Checkpoint, TheOnlyFileMayHaveAnyName) {
  const TemporaryFolder folder;
  write_floats(folder / "weights.safetensors", {"a"});
  EXPECT_EQ(Checkpoint(folder.path()).tensors().size(), 1u);
  write_floats(folder / "more.safetensors", {"b"});
  expect_contains(complaint([&] { Checkpoint{folder.path()}; }), "holds 2 *.safetensors files but neither");
}

TEST(Checkpoint, FoldersWithoutWeightsAreRefused) {
  const TemporaryFolder folder;
  expect_contains(complaint([&] { Checkpoint{folder / "nowhere"}; }),
                  "nowhere: cannot be listed: No such file or directory");
  expect_contains(complaint([&] { Checkpoint{folder.path()}; }), "holds no *.safetensors file");
  write_file(folder / "pytorch_model.bin", "x");
  expect_contains(complaint([&] { Checkpoint{folder.path()}; }), "converted to safetensors");
  std::filesystem::create_directory(folder / "model.safetensors");
  expect_contains(complaint([&] { Checkpoint{folder.path()}; }), "model.safetensors: is not a regular file");
}

TEST(Checkpoint, ABrokenFileIsNamed) {
  const TemporaryFolder folder;
  write_file(folder / "model.safetensors", "short");
  EXPECT_EQ(complaint([&] { Checkpoint{folder.path()}; }),
            (folder / "model.safetensors").string() + ": 5 bytes are too short for a safetensors file");
  write_file(folder / "model.safetensors", "");
  expect_contains(complaint([&] { Checkpoint{folder.path()}; }), "0 bytes are too short");
}

TEST(Checkpoint, FaultsOfAnIndexAreNamed) {
  const TemporaryFolder folder;
  write_floats(folder / "one.safetensors", {"a", "b"});
  write_floats(folder / "two.safetensors", {"c", "b"});
  write_floats(folder / "three.safetensors", {"d"});
  struct Case {
    std::string index;
    const char* message;
  };
  const auto map = [](const Json& entries) { return Json{{"weight_map", entries}}.dump(); };
  for (const Case& c : {
           Case{"", "index.json: not valid JSON"},
           Case{"[]", "'weight_map' is not there"},
           Case{"{}", "'weight_map' is not there"},
           Case{R"({"weight_map":[]})", "'weight_map' is not there or not an object"},
           Case{R"({"weight_map":{}})", "'weight_map' is empty"},
           Case{R"({"weight_map":{"a":1}})", "weight_map: a: expected a file name"},
           Case{R"({"weight_map":{"a":"one.safetensors","a":"two.safetensors"}})", "'a' is there twice"},
           Case{map({{"a", "../one.safetensors"}}), "is not the name of a file in this folder"},
           Case{map({{"a", "/etc/hostname"}}), "is not the name of a file in this folder"},
           Case{map({{"a", ""}}), "is not the name of a file in this folder"},
           Case{map({{"a", ".."}}), "is not a regular file"},
           Case{map({{"a", std::string("one.safetensors\0x", 17)}}), "is not the name of a file in this folder"},
           Case{map({{"a", "gone.safetensors"}}), "names gone.safetensors, which is not there"},
           Case{map({{"a", "one.safetensors"}, {"x", "one.safetensors"}}), "tensor x is in none of the files"},
           Case{map({{"a", "three.safetensors"}, {"b", "one.safetensors"}}), "tensor a should be in three.safetensors"},
           Case{map({{"a", "one.safetensors"}, {"c", "two.safetensors"}}), "two.safetensors: tensor b is stored in"},
       }) {
    SCOPED_TRACE(c.index);
    write_file(folder / "model.safetensors.index.json", c.index);
    expect_contains(complaint([&] { Checkpoint{folder.path()}; }), c.message);
  }
}

}  // namespace
}  // namespace braid
