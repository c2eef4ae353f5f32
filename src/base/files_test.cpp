// SPDX-License-Identifier: Apache-2.0
#include "base/files.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>
#include <functional>
#include <iterator>

#include "base/error.h"
#include "base/output_file.h"

namespace braid {
namespace {

namespace fs = std::filesystem;

class Files : public testing::Test {
 protected:
  Files() {
    fs::remove_all(folder_);
    fs::create_directories(folder_);
  }
  ~Files() override { fs::remove_all(folder_); }
  void put(const char* name, const char* text) const { std::ofstream(folder_ / name) << text; }
  std::string get(const char* name) const {
    std::ifstream in(folder_ / name);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  size_t count() const { return list_folder(folder_).size(); }
  const fs::path folder_ = fs::temp_directory_path() / fmt::format("braid-files-{}", ::getpid());
};

std::string fault(const std::function<void()>& work) {
  try {
    work();
  } catch (const Error& error) {
    return error.message();
  }
  return "";
}

std::span<const std::byte> bytes(std::string_view text) { return std::as_bytes(std::span(text)); }

TEST_F(Files, AreThereOrNot) {
  put("file", "x");
  fs::create_symlink("loop", folder_ / "loop");
  fs::create_symlink("nothing", folder_ / "dangling");
  EXPECT_TRUE(is_there(folder_));
  EXPECT_TRUE(is_there(folder_ / "file"));
  EXPECT_FALSE(is_there(folder_ / "nothing"));
  EXPECT_FALSE(is_there(folder_ / "dangling"));
  EXPECT_FALSE(is_there(folder_ / "file" / "inside"));
  EXPECT_EQ(fault([&] { is_there(folder_ / "loop"); }),
            (folder_ / "loop").string() + ": cannot be opened: Too many levels of symbolic links");
}

TEST_F(Files, AreListedInOrder) {
  put("b", "");
  put("a", "");
  EXPECT_EQ(list_folder(folder_), (std::vector{folder_ / "a", folder_ / "b"}));
  EXPECT_EQ(fault([&] { list_folder(folder_ / "a"); }), (folder_ / "a").string() + ": is a file, not a folder");
  EXPECT_EQ(fault([&] { list_folder(folder_ / "c"); }),
            (folder_ / "c").string() + ": cannot be listed: No such file or directory");
}

TEST_F(Files, AppearWhenTheyAreWhole) {
  put("out", "before");
  {
    OutputFile out(folder_ / "out");
    out.write_at(2, bytes("ter"));
    EXPECT_EQ(get("out"), "before");
    out.write_at(0, bytes("af"));
    out.finish();
  }
  EXPECT_EQ(get("out"), "after");
  EXPECT_EQ(count(), 1u);
}

TEST_F(Files, LeaveNothingOfAFailure) {
  put("out", "before");
  { OutputFile(folder_ / "out").write_at(0, bytes("after")); }
  { OutputFile(folder_ / "new").write_at(0, bytes("after")); }
  EXPECT_EQ(get("out"), "before");
  EXPECT_EQ(count(), 1u);
}

TEST_F(Files, AreWrittenThroughLinks) {
  put("real", "before");
  fs::create_symlink("real", folder_ / "link");
  OutputFile out(folder_ / "link");
  out.write_at(0, bytes("after"));
  out.finish();
  EXPECT_TRUE(fs::is_symlink(folder_ / "link"));
  EXPECT_EQ(get("real"), "after");
}

TEST_F(Files, CannotReplaceWhatIsNoFile) {
  fs::create_directory(folder_ / "sub");
  const auto open = [](const fs::path& path) { return fault([&] { OutputFile out(path); }); };
  EXPECT_EQ(open(folder_ / "sub"), (folder_ / "sub").string() + ": is a folder, not a file");
  EXPECT_EQ(open("/dev/null"), "/dev/null: is not a regular file");
  EXPECT_EQ(open(folder_ / "no" / "out"),
            (folder_ / "no/out").string() + ": cannot be written: No such file or directory");
  EXPECT_EQ(count(), 1u);
}

}  // namespace
}  // namespace braid
