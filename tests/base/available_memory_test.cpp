#include "base/available_memory.h"

#include <gtest/gtest.h>

namespace rocmforge {
namespace {

TEST(AvailableMemory, FindsTheNumberOfAKey) {
  const char* meminfo = "MemTotal:       16304644 kB\nMemFree:          512 kB\nMemAvailable:   12 kB\n";
  EXPECT_EQ(find_number(meminfo, "MemAvailable"), 12);
  EXPECT_EQ(find_number(meminfo, "MemTotal"), 16'304'644);
  EXPECT_EQ(find_number(meminfo, "Swap"), std::nullopt);
  EXPECT_EQ(find_number("file_mapped 5\nfile 4096\n", "file"), 4096);
  EXPECT_EQ(find_number("8589934592\n", ""), 8'589'934'592);
  EXPECT_EQ(find_number("max\n", ""), std::nullopt);
  EXPECT_EQ(find_number("", "file"), std::nullopt);
}

TEST(AvailableMemory, ThisMachineHasSome) {
  const auto bytes = available_memory_bytes();
  ASSERT_TRUE(bytes.has_value());
  EXPECT_GT(*bytes, std::int64_t{16} << 20);
  EXPECT_LT(*bytes, std::int64_t{1} << 50);
}

}  // namespace
}  // namespace rocmforge
