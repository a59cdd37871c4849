// The public attention calls on the CPU, through both headers.

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "base/half.h"
#include "rocmforge/attention.h"

namespace rocmforge::attention {
namespace {

constexpr float masked = -std::numeric_limits<float>::infinity();

/// Values without a pattern, between -1 and 1.
std::vector<float> values(std::size_t count, unsigned seed) {
  std::vector<float> result;
  std::uint32_t state = seed;
  for (std::size_t i = 0; i < count; ++i) {
    state = state * 1664525u + 1013904223u;
    result.push_back(static_cast<float>(state >> 8) / 8388608.0f - 1.0f);
  }
  return result;
}

/// A dense problem of two batches, four query heads on two KV heads.
class AttentionLibraryTest : public testing::Test {
 protected:
  static constexpr int batch = 2, q_len = 3, kv_len = 7, q_heads = 4, kv_heads = 2, head_dim = 8;

  AttentionLibraryTest()
      : q(values(batch * q_len * q_heads * head_dim, 1)),
        k(values(batch * kv_len * kv_heads * head_dim, 2)),
        v(values(batch * kv_len * kv_heads * head_dim, 3)),
        mask(values(batch * q_len * kv_len, 4)),
        out(q.size(), 77.0f) {
    options.dtype = ROCMFORGE_F32;
    mask[5] = masked;
  }

  DenseCall dense() {
    return {batch, q_len, kv_len, q_heads, kv_heads, head_dim, q.data(), k.data(), v.data(), nullptr, out.data()};
  }

  /// Attention written out, in double.
  [[nodiscard]] std::vector<float> expected(bool causal, bool with_mask, float scale) const {
    std::vector<float> result;
    for (int row = 0; row < batch * q_len; ++row) {
      for (int head = 0; head < q_heads; ++head) {
        const int b = row / q_len;
        const int kv_head = head / (q_heads / kv_heads);
        std::vector<double> sum(head_dim, 0.0);
        double total = 0.0;
        for (int key = 0; key < kv_len; ++key) {
          if (causal && key > kv_len - q_len + row % q_len) {
            continue;
          }
          double score = 0.0;
          const int at = ((b * kv_len + key) * kv_heads + kv_head) * head_dim;
          for (int d = 0; d < head_dim; ++d) {
            score += double{q[static_cast<std::size_t>((row * q_heads + head) * head_dim + d)]} *
                     double{k[static_cast<std::size_t>(at + d)]};
          }
          score = score * double{scale} + (with_mask ? double{mask[static_cast<std::size_t>(row * kv_len + key)]} : 0.0);
          total += std::exp(score);
          for (int d = 0; d < head_dim; ++d) {
            sum[static_cast<std::size_t>(d)] += std::exp(score) * double{v[static_cast<std::size_t>(at + d)]};
          }
        }
        for (const double value : sum) {
          result.push_back(static_cast<float>(value / total));
        }
      }
    }
    return result;
  }

  void expect_near(const std::vector<float>& wanted, float tolerance) const {
    ASSERT_EQ(out.size(), wanted.size());
    for (std::size_t i = 0; i < out.size(); ++i) {
      ASSERT_NEAR(out[i], wanted[i], tolerance) << "element " << i;
    }
  }

  template <class Call>
  std::string complaint(const Call& call) {
    try {
      context.run(call, options);
    } catch (const AttentionError& error) {
      return error.what();
    }
    return "none";
  }

  Context context{"cpu"};
  Options options{};
  std::vector<float> q;
  std::vector<float> k;
  std::vector<float> v;
  std::vector<float> mask;
  std::vector<float> out;
};

TEST_F(AttentionLibraryTest, DenseFull) {
  context.run(dense(), options);
  expect_near(expected(false, false, 1.0f / std::sqrt(8.0f)), 1e-6f);
  EXPECT_EQ(context.last_backend(), "reference");
}

TEST_F(AttentionLibraryTest, DenseCausalWithMoreKeysThanQueries) {
  options.causal = 1;
  options.scale = 0.7f;
  context.run(dense(), options);
  expect_near(expected(true, false, 0.7f), 1e-6f);
}

TEST_F(AttentionLibraryTest, DenseWithAMaskPerQuery) {
  DenseCall call = dense();
  call.mask = mask.data();
  context.run(call, options);
  expect_near(expected(false, true, 1.0f / std::sqrt(8.0f)), 1e-6f);
}

TEST_F(AttentionLibraryTest, DenseHalf) {
  const auto to_half = [](const std::vector<float>& from) { return std::vector<half>(from.begin(), from.end()); };
  const std::vector<half> half_q = to_half(q);
  const std::vector<half> half_k = to_half(k);
  const std::vector<half> half_v = to_half(v);
  std::vector<half> half_out(q.size());
  options.dtype = ROCMFORGE_F16;
  const DenseCall call{batch,         q_len,         kv_len,        q_heads, kv_heads,       head_dim,
                       half_q.data(), half_k.data(), half_v.data(), nullptr, half_out.data()};
  context.run(call, options);
  for (std::size_t i = 0; i < out.size(); ++i) {
    out[i] = static_cast<float>(half_out[i]);
  }
  expect_near(expected(false, false, 1.0f / std::sqrt(8.0f)), 2e-3f);
}

/// The same keys and values in pages, in an order of their own, give the same bits.
TEST_F(AttentionLibraryTest, PagedEqualsDense) {
  options.causal = 1;
  context.run(dense(), options);
  const std::vector<float> wanted = out;
  constexpr int block_tokens = 16;
  const std::vector<std::int32_t> offsets = {0, q_len, 2 * q_len};
  const std::vector<std::int32_t> lengths = {kv_len, kv_len};
  const std::vector<std::int32_t> tables = {2, -1, 0, -1};
  std::vector<float> cache(3 * 2 * kv_heads * block_tokens * head_dim, std::numeric_limits<float>::quiet_NaN());
  for (int b = 0; b < batch; ++b) {
    for (int key = 0; key < kv_len; ++key) {
      for (int h = 0; h < kv_heads; ++h) {
        for (int d = 0; d < head_dim; ++d) {
          const auto from = static_cast<std::size_t>(((b * kv_len + key) * kv_heads + h) * head_dim + d);
          const int block = tables[static_cast<std::size_t>(2 * b)];
          const auto to = static_cast<std::size_t>(((block * 2 * kv_heads + h) * block_tokens + key) * head_dim + d);
          cache[to] = k[from];
          cache[to + static_cast<std::size_t>(kv_heads * block_tokens * head_dim)] = v[from];
        }
      }
    }
  }
  PagedCall call{2, 2 * q_len,      q_heads,        kv_heads,      head_dim, block_tokens, 2,
                 3, offsets.data(), lengths.data(), tables.data(), q.data(), cache.data(), out.data()};
  out.assign(out.size(), 77.0f);
  context.run(call, options);
  EXPECT_EQ(out, wanted);

  call.max_blocks = 0;
  EXPECT_EQ(complaint(call), "max_blocks is 0");
  call.max_blocks = 2;
  call.num_blocks = 2;
  EXPECT_EQ(complaint(call), "block_tables of sequence 0, entry 0 name block 2 of 2");
  call.num_blocks = 3;
  call.block_tokens = 24;
  EXPECT_EQ(complaint(call), "block_tokens 24 is not a power of two of at least 16");
  call.block_tokens = block_tokens;
  call.num_tokens = 5;
  EXPECT_EQ(complaint(call), "query_offsets end with 6, but num_tokens is 5");
  call.num_tokens = 6;
  call.cache = nullptr;
  EXPECT_EQ(complaint(call), "cache is null");
}

TEST_F(AttentionLibraryTest, WrongCallsSayWhatIsWrong) {
  DenseCall call = dense();
  call.k = nullptr;
  EXPECT_EQ(complaint(call), "k is null");
  call = dense();
  call.batch = 0;
  EXPECT_EQ(complaint(call), "batch is 0");
  call = dense();
  call.kv_heads = 3;
  EXPECT_NE(complaint(call).find("q_heads 4 is not a multiple of kv_heads 3"), std::string::npos) << complaint(call);
  call = dense();
  options.dtype = 7;
  EXPECT_EQ(complaint(call), "dtype 7 is none of ROCMFORGE_F32, ROCMFORGE_F16, ROCMFORGE_BF16");
  options.dtype = ROCMFORGE_F32;
  options.window = -4;
  EXPECT_NE(complaint(call).find("window -4"), std::string::npos) << complaint(call);
  options.window = 0;
  options.backend = "cpu";
  call.mask = mask.data();
  EXPECT_NE(complaint(call).find("no additive mask"), std::string::npos) << complaint(call);
  options.backend = "swift";
  EXPECT_NE(complaint(call).find("there is none named 'swift'"), std::string::npos) << complaint(call);
}

TEST(AttentionLibraryContext, UnknownDevicesAreErrors) {
  EXPECT_THROW(Context("warp:0"), AttentionError);
  char message[8] = "unused";
  EXPECT_EQ(rocmforge_open("warp:0", nullptr, message, sizeof message), nullptr);
  EXPECT_EQ(message[7], '\0');  // cut to what the buffer holds
  EXPECT_EQ(rocmforge_open("warp:0", nullptr, nullptr, 0), nullptr);
}

}  // namespace
}  // namespace rocmforge::attention
