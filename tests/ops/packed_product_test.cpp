#include "ops/packed_product.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <vector>

namespace rocmforge {
namespace {

struct Product {
  struct Spec {
    DType weight = DType::f32;
    std::int64_t n = 0;
    std::int64_t k = 0;
  };
};

/// Reads the rows of the file.
class OfRows : public PackedProduct<Product> {
 public:
  [[nodiscard]] std::string_view name() const override { return "rows"; }
  [[nodiscard]] DeviceKind device() const override { return DeviceKind::cpu; }
  [[nodiscard]] KernelPriority priority() const override { return KernelPriority::portable; }
  [[nodiscard]] Support supports(const Spec&, const DeviceInfo&) const override { return Support::yes(); }
};

/// Its layout is 64 bytes of the number 7.
class OfSevens : public OfRows {
 public:
  [[nodiscard]] std::size_t packed_bytes(const Spec&) const override { return 64; }
  void pack(const Spec&, const void*, void* packed, ExecutionContext&) const override {
    std::fill_n(static_cast<std::byte*>(packed), 64, std::byte{7});
  }
};

constexpr Product::Spec three_by_two{DType::f16, 3, 2};
constexpr std::array<std::uint16_t, 6> rows{1, 2, 3, 4, 5, 6};

TEST(PackedProduct, StoresTheRowsWhereTheKernelReadsThem) {
  const OfRows kernel;
  ASSERT_EQ(kernel.stored_bytes(three_by_two), sizeof rows);
  std::array<std::uint16_t, 7> stored{};
  ExecutionContext context;
  kernel.store(three_by_two, rows.data(), stored.data(), context);
  EXPECT_TRUE(std::ranges::equal(rows, std::span(stored).first(6)));
  EXPECT_EQ(stored[6], 0) << "written behind the matrix";
}

TEST(PackedProduct, StoresWhatTheKernelPacks) {
  const OfSevens kernel;
  ASSERT_EQ(kernel.stored_bytes(three_by_two), 64u);
  std::vector<std::byte> stored(64);
  ExecutionContext context;
  kernel.store(three_by_two, rows.data(), stored.data(), context);
  EXPECT_EQ(std::ranges::count(stored, std::byte{7}), 64);
}

}  // namespace
}  // namespace rocmforge
