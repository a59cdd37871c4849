// K and V of heads from latent rows against the definition in double, and the copies of heads.

#include <algorithm>
#include <span>
#include <vector>

#include <gmock/gmock.h>

#include "conformance/harness.h"
#include "conformance/paged_batch.h"
#include "tensor/quant/dequantize.h"
#include "tensor/random_rows.h"

namespace rocmforge::test::latent_expand_test {
namespace {

struct ExpandCase {
  std::int32_t heads = 2;
  std::int32_t plain_dim = 24;
  std::int32_t n_rot = 16;
  std::int32_t rank = 48;
  std::int32_t value_dim = 20;
  DType cache = DType::f16;
  DType key_weight = DType::f32;
  DType value_weight = DType::f32;
  std::vector<SequenceShape> shapes = {{37, 5}, {20, 20}, {2, 2}};

  [[nodiscard]] LatentExpand::Spec spec() const {
    return {.plain_dim = plain_dim,
            .value_dim = value_dim,
            .key_weight = key_weight,
            .value_weight = value_weight,
            .out = cache == DType::bf16 ? DType::bf16 : DType::f16,
            .layout = {.dtype = cache, .block_tokens = 16, .kv_heads = 1, .head_dim = rank + n_rot, .value_dim = rank}};
  }
};

/// Rows [rows, columns] of a format, and their values.
struct Matrix {
  std::vector<std::byte> bytes;
  std::vector<float> values;

  Matrix(DType type, std::int64_t rows, std::int64_t columns, std::uint64_t seed)
      : values(static_cast<std::size_t>(rows * columns)) {
    Random random(seed);
    bytes = random_rows(type, rows, columns, random);
    for (std::int64_t row = 0; row < rows; ++row) {
      dequantize_row(type, bytes.data() + static_cast<std::size_t>(row) * row_bytes(type, columns),
                     values.data() + row * columns, columns);
    }
  }
};

/// The rows of K and V of all heads and positions, [sequence, head, position, head_dim], without positions after the end of
/// a sequence.
struct Expanded {
  std::vector<float> k;
  std::vector<float> v;
};

Expanded expected_of(const ExpandCase& c, const PagedCache& cache, const Matrix& keys, const Matrix& values) {
  Expanded expected;
  for (std::size_t s = 0; s < c.shapes.size(); ++s) {
    for (std::int32_t h = 0; h < c.heads; ++h) {
      for (std::int32_t p = 0; p < c.shapes[s].kv_len; ++p) {
        for (std::int32_t dim = 0; dim < c.plain_dim + c.n_rot; ++dim) {
          double k = dim < c.plain_dim ? 0.0 : double{cache.k(s, p, 0, c.rank + dim - c.plain_dim)};
          double v = 0.0;
          for (std::int32_t i = 0; i < c.rank; ++i) {
            const double latent = double{cache.k(s, p, 0, i)};
            if (dim < c.plain_dim) {
              k += latent * double{keys.values[static_cast<std::size_t>((h * c.rank + i) * c.plain_dim + dim)]};
            }
            if (dim < c.value_dim) {
              v += latent * double{values.values[static_cast<std::size_t>((h * c.value_dim + dim) * c.rank + i)]};
            }
          }
          expected.k.push_back(static_cast<float>(k));
          expected.v.push_back(static_cast<float>(v));
        }
      }
    }
  }
  return expected;
}

/// The rows of [sequences, heads, capacity, head_dim] within the sequences. The others must be unchanged.
std::vector<float> rows_of(const ExpandCase& c, DType type, const std::vector<std::byte>& all, std::int64_t capacity) {
  const std::vector<float> values = to_floats(type, all);
  const std::int64_t width = c.plain_dim + c.n_rot;
  std::vector<float> rows;
  for (std::size_t s = 0; s < c.shapes.size(); ++s) {
    for (std::int64_t h = 0; h < c.heads; ++h) {
      const auto begin = values.begin() + (static_cast<std::int64_t>(s) * c.heads + h) * capacity * width;
      const auto end = begin + c.shapes[s].kv_len * width;
      rows.insert(rows.end(), begin, end);
      EXPECT_TRUE(std::all_of(end, begin + capacity * width, [](float value) { return value == -3.0f; }))
          << "wrote behind the end of sequence " << s;
    }
  }
  return rows;
}

void expect_expanded(const ExpandCase& c, const OpKernel<LatentExpand>& kernel) {
  const LatentExpand::Spec spec = c.spec();
  std::vector<std::int32_t> lengths;
  for (const SequenceShape& shape : c.shapes) {
    lengths.push_back(shape.kv_len);
  }
  Random random(5);
  const PagedSequences sequences(lengths, c.cache, 1, spec.layout.head_dim, random);
  PagedCache cache(spec.layout, lengths, 8);
  for (std::size_t s = 0; s < lengths.size(); ++s) {
    cache.write(sequences, s, 0, lengths[s]);
  }
  const BatchPlan plan = make_batch(c.shapes, cache);
  const Matrix keys(c.key_weight, std::int64_t{c.heads} * c.rank, c.plain_dim, 21);
  const Matrix values(c.value_weight, std::int64_t{c.heads} * c.value_dim, c.rank, 22);

  Arena arena(harness().place_of(kernel));
  const RaggedBatch batch = arena.batch(plan);
  const std::int64_t count = batch.num_sequences * std::int64_t{c.heads} * batch.max_kv_len * spec.head_dim();
  const std::vector<std::byte> marks = to_bytes(spec.out, std::vector<float>(static_cast<std::size_t>(count), -3.0f));
  auto* k = arena.in_out(marks);
  auto* v = arena.in_out(marks);
  const auto pages = std::vector<std::byte>(cache.bytes().begin(), cache.bytes().end());
  const LatentExpand::Args args{
      .key_weight = arena.in(keys.bytes),
      .key_head_bytes = static_cast<std::int64_t>(keys.bytes.size()) / c.heads,
      .value_weight = arena.in(values.bytes),
      .value_head_bytes = static_cast<std::int64_t>(values.bytes.size()) / c.heads,
      .heads = c.heads,
      .cache = {arena.in_out(pages), cache.view().num_blocks},
      .batch = batch,
      .k = k,
      .v = v,
      .workspace = arena.workspace(spec.workspace_bytes(c.heads)),
  };
  arena.run([&](ExecutionContext& context) { kernel.run(spec, args, context); });
  const Expanded expected = expected_of(c, cache, keys, values);
  const auto bytes = static_cast<std::int64_t>(marks.size());
  EXPECT_LE(relative_error(rows_of(c, spec.out, arena.read(k, bytes), batch.max_kv_len), expected.k), tolerance(spec.out));
  EXPECT_LE(relative_error(rows_of(c, spec.out, arena.read(v, bytes), batch.max_kv_len), expected.v), tolerance(spec.out));
}

void expect_expanded(const ExpandCase& c) {
  harness().for_each_kernel_or_reference<LatentExpand>(
      c.spec(), [&](const OpKernel<LatentExpand>& kernel) { expect_expanded(c, kernel); });
}

TEST(LatentExpand, TinyEqualsTheDefinition) {
  expect_expanded({});
  expect_expanded({.cache = DType::bf16});
  expect_expanded({.heads = 3, .plain_dim = 32, .n_rot = 32, .rank = 64, .value_dim = 64, .cache = DType::q8_0});
  expect_expanded({.heads = 1, .plain_dim = 128, .n_rot = 64, .rank = 512, .value_dim = 128, .shapes = {{17, 17}}});
  expect_expanded({.heads = 2, .plain_dim = 192, .n_rot = 64, .rank = 128, .value_dim = 256, .shapes = {{130, 3}}});
}

TEST(LatentExpand, TinyOfEveryFormat) {
  for (const DType type : computing_types()) {
    const bool in_k_blocks = info(type).block_elems <= 32;
    expect_expanded({.heads = 2,
                     .plain_dim = in_k_blocks ? 64 : 256,
                     .n_rot = 8,
                     .rank = 256,
                     .value_dim = 24,
                     .key_weight = type,
                     .value_weight = type,
                     .shapes = {{9, 9}}});
  }
}

TEST(LatentExpand, ManyPositions) {
  expect_expanded(
      {.heads = 3, .plain_dim = 96, .n_rot = 32, .rank = 256, .value_dim = 128, .shapes = {{300, 2}, {170, 170}}});
}

TEST(LatentExpand, TinyWhatCannotBeIsRefusedWithTheReason) {
  const OpKernel<LatentExpand>& reference = *harness().registry.all<LatentExpand>()[0];
  const auto reason = [&](const auto& change) {
    LatentExpand::Spec spec = ExpandCase{}.spec();
    change(spec);
    return reference.supports(spec, harness().host.device->info()).reason;
  };
  EXPECT_EQ(reason([](auto& spec) { spec.value_dim = 41; }), "V of 41 is longer than K of 40");
  EXPECT_EQ(reason([](auto& spec) { spec.out = DType::f32; }), "K and V of type F32, not F16 or BF16");
  EXPECT_EQ(reason([](auto& spec) { spec.layout.value_dim = 0; }),
            "a cache of 1 heads of 64 with values of 0 is not one latent plane");
  EXPECT_EQ(reason([](auto& spec) { spec.key_weight = DType::q8_0; }),
            "rows of 24 elements are not a multiple of the 32 of a Q8_0 block");
}

TEST(CopyHeads, TinyCopiesThePartsOfTheTokens) {
  constexpr std::int64_t tokens = 7;
  const CopyHeads::Spec spec{.dim = 12, .out_dim = 5};
  Random random(3);
  const std::vector<float> x = random.uniforms(tokens * 2 * 12, -1.0f, 1.0f);
  const std::vector<float> before(static_cast<std::size_t>(tokens * 4 * 5), 9.0f);
  std::vector<float> expected = before;
  for (std::int64_t t = 2; t < 6; ++t) {
    for (std::int64_t h = 0; h < 2; ++h) {
      std::copy_n(x.begin() + (t * 2 + h) * 12, 5, expected.begin() + (t * 4 + 1 + h) * 5);
    }
  }
  harness().for_each_kernel_or_reference<CopyHeads>(spec, [&](const OpKernel<CopyHeads>& kernel) {
    Arena arena(harness().place_of(kernel));
    auto* out = arena.in_out(before);
    const CopyHeads::Args args{
        .x = arena.in(x), .heads = 2, .first_token = 2, .tokens = 4, .out = out, .out_heads = 4, .first_head = 1};
    arena.run([&](ExecutionContext& context) { kernel.run(spec, args, context); });
    EXPECT_EQ(arena.read(out, static_cast<std::int64_t>(before.size())), expected);
  });
}

}  // namespace
}  // namespace rocmforge::test::latent_expand_test
