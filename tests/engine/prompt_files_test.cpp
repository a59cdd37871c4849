#include "engine/prompt_files.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "base/error.h"
#include "temporary_folder.h"

namespace rocmforge::prompt_files_test {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t much = std::int64_t{1} << 30;

std::vector<std::byte> bytes_of(std::size_t count, unsigned seed) {
  std::vector<std::byte> bytes(count);
  for (std::size_t i = 0; i < count; ++i) {
    bytes[i] = static_cast<std::byte>(i * i * 31 + seed);
  }
  return bytes;
}

PromptPiece piece(std::int32_t number, std::size_t size = 1000) {
  PromptPiece made{.contents = {number, 2, 3}, .bytes = bytes_of(size, static_cast<unsigned>(number))};
  made.key = piece_key(first_piece_key({}, "salt"), made.contents);
  return made;
}

std::vector<fs::path> files_in(const fs::path& folder) {
  std::vector<fs::path> files;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
    files.push_back(entry.path());
  }
  return files;
}

TEST(PromptFiles, AKeyDependsOnTheModelTheSaltAndAllThatComesBefore) {
  const std::vector<std::int32_t> one = {1, 2}, other = {1, 3};
  const PieceKey first = first_piece_key({}, "a");
  EXPECT_NE(first, first_piece_key({}, "b"));
  EXPECT_NE(first, first_piece_key({1}, "a"));
  EXPECT_NE(piece_key(first, one), piece_key(first, other));
  EXPECT_NE(piece_key(piece_key(first, one), one), piece_key(piece_key(first, other), one));
  EXPECT_EQ(piece_key(first, one), piece_key(first_piece_key({}, "a"), one));
}

TEST(PromptFiles, EveryChangedByteChangesTheChecksum) {
  std::vector<std::byte> bytes = bytes_of(203, 5);
  const std::uint64_t right = checksum(bytes);
  for (std::byte& byte : bytes) {
    byte ^= std::byte{0x10};
    EXPECT_NE(checksum(bytes), right);
    byte ^= std::byte{0x10};
  }
  EXPECT_NE(checksum(std::span(bytes).first(202)), right);
  EXPECT_EQ(checksum(bytes), right);
}

TEST(PromptFiles, TheNextProcessFindsWhatThisOneWrote) {
  const TemporaryFolder folder;
  const fs::path place = folder.path() / "prompts";
  {
    PromptFiles files(place, much);
    for (std::int32_t i = 0; i < 5; ++i) {
      EXPECT_FALSE(files.has(piece(i).key));
      EXPECT_TRUE(files.add(piece(i)));
      EXPECT_TRUE(files.has(piece(i).key)) << "also while it waits";
    }
    EXPECT_TRUE(files.add(piece(2))) << "once is enough";
  }
  EXPECT_EQ(files_in(place).size(), 5u);
  EXPECT_EQ(fs::status(place).permissions(), fs::perms::owner_all);
  PromptFiles files(place, much);
  EXPECT_GT(files.bytes(), 5000);
  for (std::int32_t i = 0; i < 5; ++i) {
    const auto read = files.read(piece(i).key, piece(i).contents);
    ASSERT_TRUE(read.has_value());
    EXPECT_EQ(*read, piece(i).bytes);
  }
  EXPECT_FALSE(files.read(piece(9).key, piece(9).contents).has_value());
}

TEST(PromptFiles, TheOnesNotUsedForLongestMakeWay) {
  const TemporaryFolder folder;
  PromptFiles files(folder.path(), 3500);
  for (std::int32_t i = 0; i < 3; ++i) {
    files.add(piece(i));
  }
  files.finish_writing();
  EXPECT_TRUE(files.read(piece(0).key, piece(0).contents).has_value());
  files.add(piece(3));
  files.finish_writing();
  EXPECT_TRUE(files.has(piece(0).key));
  EXPECT_FALSE(files.has(piece(1).key));
  EXPECT_LE(files.bytes(), 3500);
  EXPECT_EQ(files_in(folder.path()).size(), 3u);
  EXPECT_EQ(files.num_written(), 4);
}

/// What a file may have become.
struct Damage {
  const char* name;
  void (*make)(const fs::path& file);
};

void overwrite(const fs::path& file, std::streamoff at) {
  std::fstream stream(file, std::ios::in | std::ios::out | std::ios::binary);
  stream.seekg(at);
  const int byte = stream.get();
  stream.seekp(at);
  stream.put(static_cast<char>(byte ^ 1));
}

const Damage damages[] = {
    {"a byte of the data", [](const fs::path& file) { overwrite(file, 500); }},
    {"the last byte", [](const fs::path& file) { overwrite(file, static_cast<std::streamoff>(fs::file_size(file)) - 1); }},
    {"a token", [](const fs::path& file) { overwrite(file, 72); }},
    {"the number of tokens", [](const fs::path& file) { overwrite(file, 48); }},
    {"the key", [](const fs::path& file) { overwrite(file, 16); }},
    {"the checksum", [](const fs::path& file) { overwrite(file, 64); }},
    {"the magic", [](const fs::path& file) { overwrite(file, 0); }},
    {"the end is missing", [](const fs::path& file) { fs::resize_file(file, fs::file_size(file) - 1); }},
    {"more at the end", [](const fs::path& file) { fs::resize_file(file, fs::file_size(file) + 1); }},
    {"nothing", [](const fs::path& file) { fs::resize_file(file, 0); }},
    {"a number of bytes that overflows", [](const fs::path& file) { overwrite(file, 63); }},
};

TEST(PromptFiles, ADamagedFileIsNoPiece) {
  for (const Damage& damage : damages) {
    SCOPED_TRACE(damage.name);
    for (const bool before_start : {true, false}) {
      const TemporaryFolder folder;
      { PromptFiles(folder.path(), much).add(piece(1)); }
      std::unique_ptr<PromptFiles> files;
      if (!before_start) {
        files = std::make_unique<PromptFiles>(folder.path(), much);
      }
      damage.make(files_in(folder.path()).front());
      if (before_start) {
        files = std::make_unique<PromptFiles>(folder.path(), much);
      }
      EXPECT_FALSE(files->read(piece(1).key, piece(1).contents).has_value());
      EXPECT_FALSE(files->has(piece(1).key));
      EXPECT_TRUE(files_in(folder.path()).empty());
      EXPECT_TRUE(files->add(piece(1)));
      files->finish_writing();
      EXPECT_EQ(files->read(piece(1).key, piece(1).contents), piece(1).bytes);
    }
  }
}

TEST(PromptFiles, OtherFilesAreLeftAlone) {
  const TemporaryFolder folder;
  folder.write("notes.txt", "mine");
  folder.write("1234.prompt", "mine");
  PromptFiles files(folder.path(), 10);
  EXPECT_EQ(files.bytes(), 0);
  files.add(piece(1));
  files.finish_writing();
  EXPECT_EQ(files_in(folder.path()).size(), 2u) << "a piece that is larger than all may be is not kept";
}

TEST(PromptFiles, AFolderThatCannotBeUsedIsAnError) {
  const TemporaryFolder folder;
  folder.write("file", "");
  EXPECT_THROW(PromptFiles(folder.path() / "file", much), Error);
}

}  // namespace
}  // namespace rocmforge::prompt_files_test
