#include "base/error.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "base/mapped_file.h"

namespace rocmforge {
namespace {

TEST(Error, context_reads_from_the_outside_in) {
  try {
    with_context("model.gguf",
                 [] { with_context("tensor 'output.weight'", [] { throw Error("offset 96 is past the end"); }); });
    FAIL() << "nothing was thrown";
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "model.gguf: tensor 'output.weight': offset 96 is past the end");
  }
}

TEST(Error, with_context_returns_what_the_body_returns) {
  EXPECT_EQ(with_context("unused", [] { return 7; }), 7);
}

TEST(Check, names_the_place_of_the_broken_precondition) {
  EXPECT_NO_THROW(check(true, "fine"));
  try {
    check(false, "rows must be positive");
    FAIL() << "nothing was thrown";
  } catch (const LogicError& error) {
    EXPECT_NE(std::string(error.what()).find("error_test.cpp:"), std::string::npos);
    EXPECT_NE(std::string(error.what()).find("rows must be positive"), std::string::npos);
  }
}

TEST(MappedFile, shows_the_bytes_of_the_file) {
  const auto path = std::filesystem::path(::testing::TempDir()) / "rocmforge_mapped_file";
  std::ofstream(path) << "forge";
  MappedFile file(path);
  MappedFile moved = std::move(file);
  ASSERT_EQ(moved.bytes().size(), 5u);
  EXPECT_EQ(static_cast<char>(moved.bytes()[4]), 'e');
  moved.release(moved.bytes());
  EXPECT_EQ(static_cast<char>(moved.bytes()[0]), 'f') << "released pages are read again";
  std::ofstream(path).close();
  EXPECT_TRUE(MappedFile(path).bytes().empty());
  std::filesystem::remove(path);
}

TEST(MappedFile, says_which_file_and_why) {
  const auto message = [](const std::filesystem::path& path) -> std::string {
    try {
      MappedFile file(path);
      return "";
    } catch (const Error& error) {
      return error.what();
    }
  };
  EXPECT_EQ(message("/nonexistent/model.gguf"), "/nonexistent/model.gguf: cannot open: No such file or directory");
  EXPECT_EQ(message("/tmp"), "/tmp: not a regular file but a folder");
  EXPECT_EQ(message("/dev/null"), "/dev/null: not a regular file but a character device");
  const std::string fifo = std::filesystem::path(::testing::TempDir()) / "rocmforge_fifo";
  std::filesystem::remove(fifo);
  ASSERT_EQ(mkfifo(fifo.c_str(), 0600), 0);
  EXPECT_EQ(message(fifo), fifo + ": not a regular file but a FIFO (named pipe)") << "nothing waits for a writer";
  std::filesystem::remove(fifo);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const int end = socket(AF_UNIX, SOCK_STREAM, 0);
  ASSERT_LT(fifo.size(), sizeof address.sun_path);
  std::copy(fifo.begin(), fifo.end(), address.sun_path);
  ASSERT_EQ(bind(end, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  EXPECT_EQ(message(fifo), fifo + ": not a regular file but a socket");
  close(end);
  std::filesystem::remove(fifo);
}

}  // namespace
}  // namespace rocmforge
