#include "device/ceilings.h"

#include <gtest/gtest.h>

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "base/error.h"

namespace rocmforge {
namespace {

DeviceInfo card(const std::string& name) {
  DeviceInfo device;
  device.name = name;
  device.architecture = "gfx1100:xnack-";
  device.compute_units = 48;
  return device;
}

class CeilingCacheTest : public testing::Test {
 protected:
  CeilingCacheTest() { std::filesystem::remove_all(folder_); }
  ~CeilingCacheTest() override { std::filesystem::remove_all(folder_); }

  std::filesystem::path folder_ =
      std::filesystem::path(testing::TempDir()) / ("rocmforge_ceilings_test_" + std::to_string(::getpid()));
  std::filesystem::path file_ = folder_ / "new" / "ceilings.txt";
};

TEST_F(CeilingCacheTest, KeepsOneLinePerDevice) {
  const CeilingCache cache(file_);
  EXPECT_FALSE(cache.find(card("Card One")));
  cache.store(card("Card One"), {1.5e12, 2.5e12, 7e14});
  cache.store(card("Card Two"), {1e12, 2e12, 3e14});
  cache.store(card("Card One"), {4e12, 4.25e12, 7.5e14});
  const auto one = cache.find(card("Card One"));
  ASSERT_TRUE(one);
  EXPECT_DOUBLE_EQ(one->read_bytes_per_second, 4e12);
  EXPECT_DOUBLE_EQ(one->copy_bytes_per_second, 4.25e12);
  EXPECT_DOUBLE_EQ(one->matrix_flops_per_second, 7.5e14);
  EXPECT_DOUBLE_EQ(cache.find(card("Card Two"))->read_bytes_per_second, 1e12);
  EXPECT_FALSE(cache.find(card("Card")));
}

/// Systems without a list of names call every card the same.
TEST_F(CeilingCacheTest, CardsOfOneNameAreToldApart) {
  const CeilingCache cache(file_);
  DeviceInfo first = card("AMD Radeon Graphics");
  first.pci_id = "1002:744c";
  cache.store(first, {1e12, 2e12, 3e14});
  EXPECT_TRUE(cache.find(first));
  DeviceInfo other = first;
  other.pci_id = "1002:7448";
  EXPECT_FALSE(cache.find(other));
  other = first;
  other.architecture = "gfx1151";
  EXPECT_FALSE(cache.find(other));
  other = first;
  other.compute_units = 42;
  EXPECT_FALSE(cache.find(other));
}

TEST_F(CeilingCacheTest, ADamagedLineCountsAsNotMeasured) {
  std::filesystem::create_directories(file_.parent_path());
  std::ofstream(file_) << "Card One (gfx1100, 48 units)\t1e12\tmany\t3e14\nCard Two (gfx1100, 48 units)\n"
                          "Card Three (gfx1100, 48 units)\t-1\t2\t3\nCard Four (gfx1100, 48 units)\t1\t2\t3\n";
  const CeilingCache cache(file_);
  EXPECT_FALSE(cache.find(card("Card One")));
  EXPECT_FALSE(cache.find(card("Card Two")));
  EXPECT_FALSE(cache.find(card("Card Three")));
  EXPECT_TRUE(cache.find(card("Card Four")));
}

TEST_F(CeilingCacheTest, SaysWhichFileCannotBeWritten) {
  std::filesystem::create_directories(file_);  // a folder in place of the file
  try {
    CeilingCache(file_).store(card("Card"), {1, 2, 3});
    FAIL() << "nothing was said";
  } catch (const Error& error) {
    EXPECT_EQ(std::string(error.what()), file_.string() + ": can't be written");
  }
}

}  // namespace
}  // namespace rocmforge
