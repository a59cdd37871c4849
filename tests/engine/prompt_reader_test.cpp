#include "engine/prompt_reader.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <future>
#include <new>
#include <optional>
#include <thread>
#include <vector>

namespace rocmforge {
namespace {

PromptReader::Read asked(std::uint64_t prompt, std::int32_t content) {
  return {.prompt = prompt, .key = {}, .contents = {content}};
}

std::vector<std::byte> bytes_of(std::int32_t content) {
  return std::vector<std::byte>(100, static_cast<std::byte>(content));
}

/// The next piece, whenever it comes.
PromptReader::Result next(PromptReader& reader) {
  for (;;) {
    if (std::optional<PromptReader::Result> result = reader.take()) {
      return *std::move(result);
    }
    reader.wait(std::chrono::seconds(1));
  }
}

TEST(PromptReader, PiecesComeInTheOrderInWhichTheyWereAskedFor) {
  PromptReader reader([](const PieceKey&, const std::vector<std::int32_t>& contents) -> PromptReader::Bytes {
    return contents[0] == 2 ? std::nullopt : std::optional(bytes_of(contents[0]));
  });
  EXPECT_FALSE(reader.take().has_value());
  reader.add({asked(7, 1), asked(7, 2)});
  reader.add({asked(8, 3)});
  const PromptReader::Result first = next(reader);
  EXPECT_EQ(first.prompt, 7u);
  EXPECT_EQ(first.bytes, bytes_of(1));
  EXPECT_FALSE(next(reader).bytes.has_value()) << "no whole file";
  const PromptReader::Result last = next(reader);
  EXPECT_EQ(last.prompt, 8u);
  EXPECT_EQ(last.bytes, bytes_of(3));
}

TEST(PromptReader, NobodyWaitsForAFileThatIsSlow) {
  std::promise<void> may_end;
  std::shared_future<void> ends = may_end.get_future().share();
  PromptReader reader([ends](const PieceKey&, const std::vector<std::int32_t>& contents) -> PromptReader::Bytes {
    ends.wait();
    return bytes_of(contents[0]);
  });
  reader.add({asked(1, 1), asked(2, 2), asked(1, 3)});
  EXPECT_FALSE(reader.take().has_value());
  reader.wait(std::chrono::milliseconds(1));
  EXPECT_FALSE(reader.take().has_value());
  reader.cancel(2);
  may_end.set_value();
  EXPECT_EQ(next(reader).bytes, bytes_of(1));
  EXPECT_EQ(next(reader).bytes, bytes_of(3)) << "what was cancelled is not read";
}

TEST(PromptReader, OnlySoMuchIsReadAhead) {
  std::atomic<int> reads = 0;
  PromptReader reader(
      [&reads](const PieceKey&, const std::vector<std::int32_t>& contents) -> PromptReader::Bytes {
        ++reads;
        return bytes_of(contents[0]);
      },
      150);
  reader.add({asked(1, 1), asked(1, 2), asked(1, 3), asked(1, 4)});
  while (reads < 2) {
    std::this_thread::yield();
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_EQ(reads, 2) << "200 bytes wait";
  for (std::int32_t i = 1; i <= 4; ++i) {
    EXPECT_EQ(next(reader).bytes, bytes_of(i));
  }
  EXPECT_EQ(reads, 4);
}

TEST(PromptReader, WithoutMemoryThereIsNoPiece) {
  PromptReader reader(
      [](const PieceKey&, const std::vector<std::int32_t>&) -> PromptReader::Bytes { throw std::bad_alloc(); });
  reader.add({asked(1, 1)});
  EXPECT_FALSE(next(reader).bytes.has_value());
}

}  // namespace
}  // namespace rocmforge
