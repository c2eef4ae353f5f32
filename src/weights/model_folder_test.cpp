// SPDX-License-Identifier: Apache-2.0
#include "weights/model_folder.h"

#include <gtest/gtest.h>

#include "weights/test_files.h"

namespace braid {
namespace {

using test::complaint;
using test::expect_contains;
using test::TemporaryFolder;
using test::write_file;

TEST(ModelFolder, PathsComeFirst) {
  const TemporaryFolder folder;
  EXPECT_EQ(find_model(folder.path().string(), folder / "cache"), folder.path());
  for (const char* file : {"model.gguf", "model.safetensors"}) {
    write_file(folder / file, "x");
    const std::string message = complaint([&] { find_model((folder / file).string(), folder / "cache"); });
    expect_contains(message, (folder / file).string() + "': is a file, where a folder");
    EXPECT_EQ(message.find("GGUF files are not supported") != std::string::npos, file == std::string("model.gguf"));
  }
}

TEST(ModelFolder, HubNamesAreFoundInTheCache) {
  const TemporaryFolder cache;
  write_file(cache / "models--org--name-1.5/refs/main", "abc123\n");
  write_file(cache / "models--org--name-1.5/snapshots/abc123/config.json", "{}");
  write_file(cache / "models--org--name-1.5/snapshots/def456/config.json", "{}");
  const auto snapshots = cache / "models--org--name-1.5/snapshots";
  EXPECT_EQ(find_model("org/name-1.5", cache.path()), snapshots / "abc123");
  EXPECT_EQ(find_model("org/name-1.5@main", cache.path()), snapshots / "abc123");
  EXPECT_EQ(find_model("org/name-1.5@def456", cache.path()), snapshots / "def456");
  const std::string message = complaint([&] { find_model("org/name-1.5@v2", cache.path()); });
  expect_contains(message, "no such file or folder");
  expect_contains(message, (cache / "models--org--name-1.5").string() + " has no snapshot of revision v2");
}

TEST(ModelFolder, NamesThatLeaveTheCacheAreRefused) {
  const TemporaryFolder cache;
  for (const char* model : {"", "name", "/absent/folder", "../x", "org/..", "org/name@../../x", "org/na me", "a/b/c",
                            "org/name@", "/name", "org/"})
    expect_contains(complaint([&] { find_model(model, cache.path()); }), "no such file or folder");
  write_file(cache / "models--org--name/refs/main", "../../elsewhere");
  expect_contains(complaint([&] { find_model("org/name", cache.path()); }), "has no snapshot");
}

TEST(ModelFolder, TheCacheOfThisUserIsUnderTheirHome) {
  EXPECT_TRUE(hub_cache().is_absolute());
  EXPECT_EQ(hub_cache().filename(), "hub");
}

}  // namespace
}  // namespace braid
