#include "engine/salt_secret.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "engine/prompt_files.h"
#include "error_of.h"
#include "temporary_folder.h"

namespace rocmforge {
namespace {

namespace fs = std::filesystem;
using ::testing::EndsWith;
using ::testing::HasSubstr;

constexpr std::string_view hex_digits = "0123456789abcdef";

class SaltSecret : public ::testing::Test {
 protected:
  [[nodiscard]] std::string refusal() const {
    return test::error_of([this] { static_cast<void>(salt_secret_of(folder_.path())); });
  }

  TemporaryFolder folder_;
  fs::path path_ = folder_.path() / salt_secret_file;
};

TEST_F(SaltSecret, IsMadeOnceAndOfTheFolderAlone) {
  const std::string secret = salt_secret_of(folder_.path());
  EXPECT_EQ(secret.size(), 64u);
  EXPECT_EQ(secret.find_first_not_of(hex_digits), std::string::npos);
  EXPECT_EQ(fs::status(path_).permissions(), fs::perms::owner_read | fs::perms::owner_write);
  EXPECT_EQ(salt_secret_of(folder_.path()), secret);
  const TemporaryFolder other;
  EXPECT_NE(salt_secret_of(other.path()), secret);
  EXPECT_NE(random_salt_secret(), random_salt_secret());
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_.path()), {}), 1) << "nothing else is left";
}

TEST_F(SaltSecret, IsOneForAllWhoBeginTogether) {
  std::vector<std::string> found(8);
  {
    std::vector<std::jthread> threads;
    for (std::string& own : found) {
      threads.emplace_back([this, &own] { own = salt_secret_of(folder_.path()); });
    }
  }
  EXPECT_THAT(found, ::testing::Each(found.front()));
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_.path()), {}), 1);
}

TEST_F(SaltSecret, StaysWhereThePromptsAre) {
  const std::string secret = salt_secret_of(folder_.path());
  { const PromptFiles files(folder_.path(), 0); }
  EXPECT_EQ(salt_secret_of(folder_.path()), secret);
}

TEST_F(SaltSecret, OfOthersIsRefused) {
  static_cast<void>(salt_secret_of(folder_.path()));
  for (const fs::perms more : {fs::perms::group_read, fs::perms::others_read, fs::perms::others_write}) {
    fs::permissions(path_, fs::perms::owner_read | more);
    EXPECT_THAT(refusal(), HasSubstr(path_.string() + ": others may read or change the secret of salts, its mode is 4"));
  }
  fs::permissions(path_, fs::perms::owner_read);
  EXPECT_EQ(refusal(), test::error_of([] {})) << "nobody else's";
}

TEST_F(SaltSecret, ThatIsDamagedIsRefused) {
  const std::string secret = salt_secret_of(folder_.path());
  for (const std::string& text :
       {std::string(), secret, secret + "\n\n", secret.substr(1) + "g\n", secret.substr(1) + "\n\n"}) {
    std::ofstream(path_, std::ios::trunc) << text;
    EXPECT_THAT(refusal(), HasSubstr(path_.string() + ": is no secret of salts, 64 hex digits: ")) << text;
  }
  fs::remove(path_);
  fs::create_directory(path_);
  fs::permissions(path_, fs::perms::owner_all);
  EXPECT_THAT(refusal(), HasSubstr("is no secret of salts"));
  fs::remove(path_);
  fs::create_symlink("elsewhere", path_);
  EXPECT_THAT(refusal(), HasSubstr(path_.string() + ": the secret of salts can't be read: "));
}

TEST_F(SaltSecret, ThatCannotBeMadeIsSaid) {
  const fs::path absent = folder_.path() / "absent";
  EXPECT_THAT(test::error_of([&] { static_cast<void>(salt_secret_of(absent)); }),
              EndsWith("the secret of salts can't be made: No such file or directory"));
}

}  // namespace
}  // namespace rocmforge
