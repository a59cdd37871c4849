#include "options/model_files.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "apps/program.h"
#include "options/model_path.h"
#include "options/usage_error.h"

namespace rocmforge::app {
namespace {

namespace fs = std::filesystem;

class ModelFilesTest : public testing::Test {
 protected:
  void add(const std::string& name) {
    fs::create_directories((folder_.path() / name).parent_path());
    folder_.write(name, "GGUF");
  }
  [[nodiscard]] std::vector<std::string> found(const WalkLimits& limits = {}) const {
    std::vector<std::string> names;
    for (const fs::path& path : find_model_files(folder_.path(), limits).files) {
      names.push_back(path.lexically_relative(folder_.path()).string());
    }
    return names;
  }
  using Names = std::vector<std::string>;

  TemporaryFolder folder_;
};

TEST_F(ModelFilesTest, LooksIntoFoldersButNoHiddenOnes) {
  add("b.gguf");
  add("sub/deeper/a.gguf");
  add("sub/readme.txt");
  add(".hidden/c.gguf");
  EXPECT_EQ(found(), (Names{"b.gguf", "sub/deeper/a.gguf"}));
}

TEST_F(ModelFilesTest, ASplitModelCountsOnce) {
  add("big-00001-of-00003.gguf");
  add("big-00002-of-00003.gguf");
  add("big-00003-of-00003.gguf");
  add("lost-00002-of-00002.gguf");
  add("best-of-all.gguf");
  add("x/big-00001-of-00003.gguf");
  EXPECT_EQ(found(),
            (Names{"best-of-all.gguf", "big-00001-of-00003.gguf", "lost-00002-of-00002.gguf", "x/big-00001-of-00003.gguf"}));
}

// The cache of the hub: names in snapshots/REVISION are links to blobs/HASH.
TEST_F(ModelFilesTest, FollowsTheLinksOfTheHubsCache) {
  const fs::path model = folder_.path() / "models--someone--tiny-GGUF";
  add("models--someone--tiny-GGUF/blobs/0123abcd");
  fs::create_directories(model / "snapshots" / "f00d");
  fs::create_symlink("../../blobs/0123abcd", model / "snapshots" / "f00d" / "tiny.gguf");
  fs::create_symlink("../../blobs/gone", model / "snapshots" / "f00d" / "gone.gguf");
  EXPECT_EQ(found(), Names{"models--someone--tiny-GGUF/snapshots/f00d/tiny.gguf"});
}

TEST_F(ModelFilesTest, NoLoopOfLinksHoldsItUp) {
  add("a/m.gguf");
  fs::create_directory_symlink(folder_.path(), folder_.path() / "a" / "up");
  fs::create_directory_symlink(folder_.path() / "a", folder_.path() / "again");
  EXPECT_EQ(found().size(), 1U);
}

TEST_F(ModelFilesTest, LooksAtSoManyEntriesAndSoDeepOnly) {
  add("1/2/3/m.gguf");
  EXPECT_EQ(found({.depth = 2}), Names{});
  EXPECT_EQ(found({.depth = 3}).size(), 1U);
  EXPECT_FALSE(find_model_files(folder_.path(), {.entries = 3}).complete);
  EXPECT_TRUE(find_model_files(folder_.path(), {.entries = 4}).complete);
  EXPECT_THROW(find_model_files(folder_.path() / "none"), UsageError);
}

// Whatever `rocmforge models` lists is a model by its name alone.
TEST_F(ModelFilesTest, ANameMeansTheFileBelowTheCurrentFolder) {
  add("sub/deeper/only-here.gguf");
  const fs::path before = fs::current_path();
  fs::current_path(folder_.path());
  EXPECT_EQ(find_model("only-here"), "./sub/deeper/only-here.gguf");
  EXPECT_EQ(find_model("only-here.gguf"), "./sub/deeper/only-here.gguf");
  add("sub/only-here.gguf");
  EXPECT_THROW(find_model("only-here"), UsageError) << "there are two";
  fs::current_path(before);
}

}  // namespace
}  // namespace rocmforge::app
