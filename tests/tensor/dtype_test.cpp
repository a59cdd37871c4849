#include "tensor/dtype.h"

#include <gtest/gtest.h>

#include <array>
#include <limits>
#include <set>

#include "base/error.h"
#include "tensor/shape.h"
#include "tensor/tensor.h"

namespace rocmforge {
namespace {

TEST(DType, IdsAreKnownRemovedOrUnknown) {
  const std::set<std::uint32_t> removed{4, 5, 31, 32, 33, 36, 37, 38};
  for (std::uint32_t id = 0; id < 64; ++id) {
    const bool known = id <= 42 && !removed.contains(id);
    ASSERT_EQ(dtype_from_id(id).has_value(), known) << id;
    EXPECT_EQ(removed_dtype_name(id).empty(), !removed.contains(id)) << id;
    if (known) {
      EXPECT_EQ(static_cast<std::uint32_t>(*dtype_from_id(id)), id);
    }
  }
  EXPECT_FALSE(dtype_from_id(std::numeric_limits<std::uint32_t>::max()));
}

TEST(DType, BlockSizesAreThoseOfTheFormat) {
  struct Expected {
    DType type;
    std::int32_t elems, bytes;
  };
  constexpr std::array<Expected, 14> expected{{{DType::q4_0, 32, 18},
                                               {DType::q4_1, 32, 20},
                                               {DType::q5_0, 32, 22},
                                               {DType::q5_1, 32, 24},
                                               {DType::q8_0, 32, 34},
                                               {DType::q2_k, 256, 84},
                                               {DType::q3_k, 256, 110},
                                               {DType::q4_k, 256, 144},
                                               {DType::q5_k, 256, 176},
                                               {DType::q6_k, 256, 210},
                                               {DType::iq4_nl, 32, 18},
                                               {DType::iq4_xs, 256, 136},
                                               {DType::mxfp4, 32, 17},
                                               {DType::nvfp4, 64, 36}}};
  for (const Expected& entry : expected) {
    EXPECT_EQ(info(entry.type).block_elems, entry.elems) << name(entry.type);
    EXPECT_EQ(info(entry.type).block_bytes, entry.bytes) << name(entry.type);
  }
}

TEST(DType, NamesReadBackInAnyCase) {
  for (const DTypeInfo& entry : all_dtypes()) {
    EXPECT_EQ(dtype_from_name(entry.name), entry.type) << entry.name;
  }
  EXPECT_EQ(dtype_from_name("q4_k"), DType::q4_k);
  EXPECT_EQ(dtype_from_name("Q4_K_M"), std::nullopt);
}

TEST(DType, RowsHoldWholeBlocks) {
  EXPECT_EQ(row_bytes(DType::q6_k, 512), 420u);
  EXPECT_EQ(row_bytes(DType::f16, 3), 6u);
  EXPECT_THROW((void)row_bytes(DType::q6_k, 300), LogicError);
}

TEST(Shape, IndexesFromBothEnds) {
  const Shape shape{5, 3, 64};
  EXPECT_EQ(shape.rank(), 3);
  EXPECT_EQ(shape[0], 5);
  EXPECT_EQ(shape[-1], 64);
  EXPECT_EQ(shape.rows(), 15);
  EXPECT_EQ(shape.cols(), 64);
  EXPECT_EQ(shape.elems(), 960);
  EXPECT_EQ(shape.to_string(), "[5, 3, 64]");
  EXPECT_THROW((void)shape[3], LogicError);
  EXPECT_EQ(Shape{}.elems(), 1);
}

TEST(Shape, SqueezedHasNoDimensionsOfOne) {
  EXPECT_EQ((Shape{1, 512}).squeezed(), Shape{512});
  EXPECT_EQ((Shape{8, 1}).squeezed(), Shape{8});
  EXPECT_EQ((Shape{1, 5, 1, 3}).squeezed(), (Shape{5, 3}));
  EXPECT_NE((Shape{5, 3}).squeezed(), (Shape{3, 5}).squeezed());
  EXPECT_EQ((Shape{1}).squeezed(), Shape{});
}

TEST(Tensor, CountsTheBytesOfItsRows) {
  const Tensor tensor{nullptr, DType::q4_k, Shape{7, 512}};
  EXPECT_EQ(tensor.bytes(), 7u * 288u);
  EXPECT_FALSE(tensor);
}

}  // namespace
}  // namespace rocmforge
