#include "models/parts/head_matrix.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "kernels/attention/kernels.h"

namespace rocmforge {
namespace {

using ::testing::ElementsAre;

/// A rank's heads 1 and 2 of three, whose two rows of four columns follow a row of another matrix.
TEST(HeadMatrix, CopiesARanksRowsAndNothingBehindThem) {
  constexpr std::int64_t k = 4;
  constexpr std::int64_t rows_of_head = 3;
  std::vector<float> rows(3 * rows_of_head * k);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    rows[i] = static_cast<float>(i / k);
  }
  GgufTensor tensor;
  tensor.tensor.dtype = DType::f32;
  tensor.tensor.data = rows.data();
  const auto kernel = make_reference_head_matmul();
  HeadMatrix matrix;
  matrix.tensor = &tensor;
  matrix.cut = true;
  matrix.first_row = rows_of_head + 1;
  matrix.tensor_rows = rows_of_head;
  matrix.spec = {.weight = DType::f32, .heads = 2, .n = 2, .k = k};
  matrix.kernel = kernel.get();
  ASSERT_EQ(matrix.head_bytes(), std::int64_t{2 * k * sizeof(float)});
  ASSERT_EQ(matrix.bytes(), 4 * k * sizeof(float));

  std::vector<float> copy(matrix.bytes() / sizeof(float));
  ExecutionContext context;
  matrix.copy(reinterpret_cast<std::byte*>(copy.data()), context);
  EXPECT_THAT(copy, ElementsAre(4, 4, 4, 4, 5, 5, 5, 5, 7, 7, 7, 7, 8, 8, 8, 8));
}

}  // namespace
}  // namespace rocmforge
