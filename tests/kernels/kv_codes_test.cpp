// The quantised types of K and V: bytes, errors, ends and the rotation before.

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <random>
#include <vector>

#include "kernels/formats/reference/kv_element.h"

namespace rocmforge {
namespace {

constexpr DType quantised[] = {DType::q8_0, DType::q5_1, DType::q5_0, DType::q4_1, DType::q4_0, DType::iq4_nl};

struct Stored {
  KvLayout layout;
  std::vector<std::byte> bytes;

  explicit Stored(DType type, KvOrder order = KvOrder::token_major, std::int32_t head_dim = 32)
      : layout{.dtype = type, .block_tokens = 16, .kv_heads = 1, .head_dim = head_dim, .k_order = order},
        bytes(layout.head_bytes(), std::byte{0xff}) {}
  [[nodiscard]] KvHead head() { return {&layout, layout.dtype.k, layout.k_order, bytes.data()}; }
};

std::vector<float> normals(std::size_t count, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<float> values(count);
  for (float& value : values) {  // a sum of twelve is close enough to a normal number, and the same everywhere
    value = -6.0f;
    for (int i = 0; i < 12; ++i) {
      value += static_cast<float>(random() >> 8) * 0x1p-24f;
    }
  }
  return values;
}

TEST(KvCodes, TakeTheBytesOfTheirTypeAndFillThem) {
  const std::pair<DType, std::size_t> group_bytes[] = {{DType::q8_0, 34}, {DType::q5_1, 24}, {DType::q5_0, 22},
                                                       {DType::q4_1, 20}, {DType::q4_0, 18}, {DType::iq4_nl, 18}};
  for (const auto& [type, bytes] : group_bytes) {
    const KvLayout layout{.dtype = type, .block_tokens = 64, .kv_heads = 2, .head_dim = 96};
    EXPECT_EQ(layout.head_bytes(), 64 * 3 * bytes) << name(type);
    const KvArrays arrays = kv_arrays(kv_coding(type), 64, 96);
    const std::int64_t end = kv_coding(type).minimum ? arrays.minima + 64 * 3 * 2 : arrays.minima;
    EXPECT_EQ(end, static_cast<std::int64_t>(layout.head_bytes())) << name(type);
  }
  const KvLayout mixed{.dtype = {DType::q8_0, DType::q4_0}, .block_tokens = 16, .kv_heads = 3, .head_dim = 32};
  EXPECT_EQ(mixed.head_at(true, 1), 3u * 16 * 34 + 16 * 18);
  EXPECT_EQ(mixed.block_bytes(), 3u * 16 * (34 + 18));
}

TEST(KvCodes, ErrAtMostHalfAStep) {
  for (const DType type : quantised) {
    const KvCoding coding = kv_coding(type);
    for (unsigned seed = 0; seed < 200; ++seed) {
      const std::vector<float> values = normals(32, seed);
      const auto [least, largest] = std::ranges::minmax(values);
      const float step = std::abs(kv_scale(coding, least, largest));
      Stored stored(type);
      stored.head().store(3, values.data());
      for (std::int32_t i = 0; i < 32; ++i) {
        const float value = values[static_cast<std::size_t>(i)];
        const float found = stored.head().load(3, i);
        // The table's steps are up to 24 units apart, and its end is 14 short of the other one. The end that reaches less
        // far lacks a step in types without minima.
        const float most = coding.table ? 14.0f : coding.offset() > 0 && std::abs(value) > 7.0f * step ? 1.0f : 0.5f;
        ASSERT_LE(std::abs(found - value), most * step * 1.01f + 2e-3f) << name(type) << " " << value << " " << found;
      }
    }
  }
}

TEST(KvCodes, KeepTheNumberThatReachesFurthest) {
  for (const DType type : {DType::q4_0, DType::q5_0, DType::iq4_nl}) {
    for (const float sign : {1.0f, -1.0f}) {
      std::vector<float> values = normals(32, 5);
      values[17] = 8.0f * sign;
      Stored stored(type);
      stored.head().store(0, values.data());
      EXPECT_NEAR(stored.head().load(0, 17), 8.0f * sign, 4e-3f) << name(type);
    }
  }
}

TEST(KvCodes, ZerosStayZeros) {
  for (const DType type : quantised) {
    const std::vector<float> zeros(32, 0.0f);
    Stored stored(type);
    stored.head().store(1, zeros.data());
    for (std::int32_t i = 0; i < 32; ++i) {
      EXPECT_EQ(stored.head().load(1, i), 0.0f) << name(type);
    }
  }
}

TEST(KvCodes, BothOrdersHoldTheSame) {
  for (const DType type : quantised) {
    Stored by_token(type, KvOrder::token_major, 96);
    Stored by_dim(type, KvOrder::dim_major, 96);
    for (std::int32_t token = 0; token < 16; ++token) {
      const std::vector<float> values = normals(96, static_cast<unsigned>(token));
      by_token.head().store(token, values.data());
      by_dim.head().store(token, values.data());
    }
    for (std::int32_t token = 0; token < 16; ++token) {
      for (std::int32_t dim = 0; dim < 96; ++dim) {
        ASSERT_EQ(by_token.head().load(token, dim), by_dim.head().load(token, dim)) << name(type);
      }
    }
  }
}

TEST(KvCodes, StoredAgainTheyAreTheSame) {
  for (const DType type : quantised) {
    Stored first(type);
    Stored second(type);
    const std::vector<float> values = normals(32, 11);
    first.head().store(0, values.data());
    std::vector<float> again;
    for (std::int32_t i = 0; i < 32; ++i) {
      again.push_back(first.head().load(0, i));
    }
    second.head().store(0, again.data());
    for (std::int32_t i = 0; i < 32; ++i) {
      EXPECT_NEAR(second.head().load(0, i), again[static_cast<std::size_t>(i)], 2e-3f) << name(type);
    }
  }
}

TEST(WalshHadamard, IsTheMatrixOfItsDefinitionAndItsOwnInverse) {
  for (const std::int32_t dims : {32, 96, 128}) {
    const std::int32_t block = hadamard_dims(dims);
    const std::vector<float> from = normals(static_cast<std::size_t>(dims), 3);
    std::vector<double> head(from.begin(), from.end());
    turn_by_hadamard(head.data(), dims);
    for (std::int32_t i = 0; i < dims; ++i) {
      double sum = 0.0;
      for (std::int32_t j = 0; j < block; ++j) {
        const bool odd = std::popcount(static_cast<unsigned>(i % block) & static_cast<unsigned>(j)) % 2 != 0;
        const double value = from[static_cast<std::size_t>(i / block * block + j)];
        sum += odd ? -value : value;
      }
      EXPECT_NEAR(head[static_cast<std::size_t>(i)], sum / std::sqrt(block), 1e-12);
    }
    turn_by_hadamard(head.data(), dims);
    for (std::int32_t i = 0; i < dims; ++i) {
      EXPECT_NEAR(head[static_cast<std::size_t>(i)], from[static_cast<std::size_t>(i)], 1e-12);
    }
  }
  for (std::int32_t block = 1; block <= 512; block *= 2) {
    EXPECT_FLOAT_EQ(hadamard_factor(block), 1.0f / std::sqrt(static_cast<float>(block)));
  }
}

/// One number that stands out takes the codes of its group's others; rotated, all have their share.
TEST(WalshHadamard, LessensTheErrorWhereOneNumberStandsOut) {
  const std::int32_t dims = 128;
  double errors[2] = {};
  for (unsigned seed = 0; seed < 20; ++seed) {
    std::vector<float> values = normals(dims, seed);
    values[40] = 30.0f;
    for (const bool rotated : {false, true}) {
      std::vector<double> head(values.begin(), values.end());
      if (rotated) {
        turn_by_hadamard(head.data(), dims);
      }
      const std::vector<float> stored_values(head.begin(), head.end());
      Stored stored(DType::q4_0, KvOrder::token_major, dims);
      stored.head().store(0, stored_values.data());
      for (std::int32_t i = 0; i < dims; ++i) {
        const double error = stored.head().load(0, i) - head[static_cast<std::size_t>(i)];
        errors[rotated ? 1 : 0] += error * error;
      }
    }
  }
  EXPECT_LT(errors[1], 0.75 * errors[0]);
}

}  // namespace
}  // namespace rocmforge
