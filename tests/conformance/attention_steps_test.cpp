// The steps of attention. Expected values come from the formulas, written out here: the operations are as simple as their
// definitions, and so the reference is tested along with the kernels of the device. Every case covers a batch of equal
// sequences and ragged ones; rows and keys that a sequence lacks are poisoned and must stay so.

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

#include "conformance/harness.h"
#include "conformance/paged_batch.h"

namespace rocmforge::test::attention_steps_test {
namespace {

constexpr float minus_infinity = -std::numeric_limits<float>::infinity();

std::size_t at(std::int64_t index) { return static_cast<std::size_t>(index); }

/// A row of scores that exists.
struct Row {
  std::int64_t index;  ///< among the rows of the scores
  std::int64_t sequence;
  std::int64_t head;
  std::int64_t token;  ///< among the query rows of all sequences
  std::int32_t position;
  std::int32_t keys;
};

/// The shape of a case: equal sequences, or ragged ones with a padding of 3 keys.
struct Shape {
  std::vector<SequenceShape> sequences;
  std::int32_t heads = 1;
  bool ragged = true;
  std::int32_t first_row = 0;
  std::int32_t most_rows = 1 << 30;
  SequenceRows computed = SequenceRows::all;

  [[nodiscard]] std::int32_t q_len() const { return std::min(most_rows, std::ranges::max(sequences, {}, q_len_of).q_len); }
  [[nodiscard]] std::int32_t kv_len() const {
    return std::ranges::max(sequences, {}, [](const SequenceShape& s) { return s.kv_len; }).kv_len + (ragged ? 3 : 0);
  }
  [[nodiscard]] std::int64_t batch() const { return std::ssize(sequences); }
  [[nodiscard]] std::int64_t tokens() const {
    std::int64_t sum = 0;
    for (const SequenceShape& s : sequences) {
      sum += s.q_len;
    }
    return sum;
  }
  [[nodiscard]] std::int64_t scores() const { return batch() * heads * q_len() * kv_len(); }

  [[nodiscard]] ScoreShape in(Arena& arena) const {
    ScoreShape shape{.batch = static_cast<std::int32_t>(batch()), .heads = heads, .q_len = q_len(), .kv_len = kv_len()};
    if (ragged) {
      std::vector<std::int32_t> offsets = {0};
      std::vector<std::int32_t> lengths;
      for (const SequenceShape& s : sequences) {
        offsets.push_back(offsets.back() + s.q_len);
        lengths.push_back(s.kv_len);
      }
      shape.query_offsets = arena.in(offsets);
      shape.kv_lengths = arena.in(lengths);
      shape.first_row = first_row;
      shape.computed = computed;
    }
    return shape;
  }

  [[nodiscard]] bool has_rows(const SequenceShape& s) const {
    const bool wanted = computed == SequenceRows::all || (computed == SequenceRows::single) == (s.q_len == 1);
    return wanted && s.q_len > first_row;
  }

  void for_each_row(const std::function<void(const Row&)>& body) const {
    std::int64_t first_token = 0;
    for (std::int64_t b = 0; b < batch(); ++b) {
      const SequenceShape& s = sequences[at(b)];
      for (std::int64_t h = 0; h < heads; ++h) {
        for (std::int32_t i = 0; i < q_len() && first_row + i < s.q_len && has_rows(s); ++i) {
          const std::int32_t row = first_row + i;
          body({(b * heads + h) * q_len() + i, b, h, first_token + row, s.kv_len - s.q_len + row, s.kv_len});
        }
      }
      first_token += s.q_len;
    }
  }

 private:
  static std::int32_t q_len_of(const SequenceShape& s) { return s.q_len; }
};

Shape equal(std::int64_t batch, std::int32_t q_len, std::int32_t kv_len, std::int32_t heads) {
  return {.sequences = std::vector<SequenceShape>(at(batch), {kv_len, q_len}), .heads = heads, .ragged = false};
}

/// Prefill and decode mixed, padding, more queries than keys, a later pass over rows, and single sequences.
std::vector<Shape> ragged_shapes() {
  const std::vector<SequenceShape> mixed = {{33, 5}, {7, 1}, {0, 1}, {20, 20}, {3, 6}};
  return {{.sequences = mixed, .heads = 2},
          {.sequences = mixed, .heads = 3, .first_row = 4, .most_rows = 8},
          {.sequences = mixed, .heads = 2, .computed = SequenceRows::single},
          {.sequences = mixed, .heads = 1, .computed = SequenceRows::several}};
}

template <class Op, class Test>
void for_each(const typename Op::Spec& spec, const Shape& shape, const Test& test) {
  SCOPED_TRACE(testing::Message() << shape.batch() << " x " << shape.heads << " x " << shape.q_len() << " x "
                                  << shape.kv_len() << (shape.ragged ? " ragged, first row " : "") << shape.first_row);
  harness().for_each_kernel_or_reference<Op>(spec, [&](const OpKernel<Op>& kernel) {
    Arena arena(harness().place_of(kernel));
    const auto call = [&](const typename Op::Args& args) {
      arena.run([&](ExecutionContext& context) { kernel.run(spec, args, context); });
    };
    test(arena, call);
  });
}

/// Equal within `most`, relatively, and NaN exactly where `expected` is.
void expect_close(std::span<const float> actual, std::span<const float> expected, double most) {
  std::vector<float> values;
  std::vector<float> expected_values;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    ASSERT_EQ(std::isnan(actual[i]), std::isnan(expected[i])) << "element " << i << ": " << actual[i];
    if (!std::isnan(expected[i])) {
      values.push_back(actual[i]);
      expected_values.push_back(expected[i]);
    }
  }
  EXPECT_LE(relative_error(values, expected_values), most);
}

/// [batch, kv_len, heads, head_dim], NaN behind a sequence's keys.
std::vector<float> random_keys(const Shape& shape, std::int32_t head_dim, Random& random) {
  std::vector<float> keys = poisoned(shape.batch() * shape.kv_len() * shape.heads * head_dim);
  const std::int64_t row = std::int64_t{shape.heads} * head_dim;
  for (std::int64_t b = 0; b < shape.batch(); ++b) {
    const std::vector<float> values = random.normals(shape.sequences[at(b)].kv_len * row);
    std::ranges::copy(values, keys.begin() + b * shape.kv_len() * row);
  }
  return keys;
}

/// Scores where a sequence has rows and keys, NaN elsewhere.
std::vector<float> random_scores(const Shape& shape, Random& random, float deviation) {
  std::vector<float> scores = poisoned(shape.scores());
  shape.for_each_row([&](const Row& row) {
    const std::vector<float> values = random.normals(row.keys, deviation);
    std::ranges::copy(values, scores.begin() + row.index * shape.kv_len());
  });
  return scores;
}

void expect_query_key(const Shape& shape, std::int32_t head_dim, DType q_dtype = DType::f32, std::int64_t extra = 0) {
  Random random(14);
  const std::int64_t width = std::int64_t{shape.heads} * head_dim;
  const std::int64_t stride = width + extra;
  std::vector<float> q = random.normals(shape.tokens() * stride);
  round_all(q_dtype, q);
  const std::vector<float> k = random_keys(shape, head_dim, random);
  std::vector<float> expected = poisoned(shape.scores());
  shape.for_each_row([&](const Row& row) {
    for (std::int64_t j = 0; j < row.keys; ++j) {
      double sum = 0.0;
      for (std::int64_t d = 0; d < head_dim; ++d) {
        sum += double{q[at(row.token * stride + row.head * head_dim + d)]} *
               double{k[at((row.sequence * shape.kv_len() + j) * width + row.head * head_dim + d)]};
      }
      expected[at(row.index * shape.kv_len() + j)] = static_cast<float>(0.125 * sum);
    }
  });
  for_each<QueryKey>({head_dim, q_dtype}, shape, [&](Arena& arena, const auto& call) {
    float* scores = arena.out<float>(shape.scores());
    call({.q = arena.in(to_bytes(q_dtype, q)),
          .q_stride = extra == 0 ? 0 : stride,
          .k = arena.in(k),
          .shape = shape.in(arena),
          .scale = 0.125f,
          .scores = scores});
    expect_close(arena.read(scores, shape.scores()), expected, tolerance(DType::f32));
  });
}

void expect_weights_value(const Shape& shape, std::int32_t head_dim, DType out_dtype = DType::f32, std::int64_t extra = 0) {
  Random random(15);
  const std::int64_t width = std::int64_t{shape.heads} * head_dim;
  const std::int64_t stride = width + extra;
  const std::vector<float> weights = random_scores(shape, random, 1.0f);
  const std::vector<float> v = random_keys(shape, head_dim, random);
  std::vector<float> expected = poisoned(shape.tokens() * stride);
  shape.for_each_row([&](const Row& row) {
    for (std::int64_t d = 0; d < head_dim; ++d) {
      double sum = 0.0;
      for (std::int64_t j = 0; j < row.keys; ++j) {
        sum += double{weights[at(row.index * shape.kv_len() + j)]} *
               double{v[at((row.sequence * shape.kv_len() + j) * width + row.head * head_dim + d)]};
      }
      expected[at(row.token * stride + row.head * head_dim + d)] = static_cast<float>(sum);
    }
  });
  for_each<WeightsValue>({head_dim, out_dtype}, shape, [&](Arena& arena, const auto& call) {
    const std::size_t size = to_bytes(out_dtype, expected).size();
    auto* out =
        arena.out<std::byte>(std::ssize(expected) * (std::ssize(to_bytes(out_dtype, expected)) / std::ssize(expected)));
    call({.weights = arena.in(weights),
          .v = arena.in(v),
          .shape = shape.in(arena),
          .out = out,
          .out_stride = extra == 0 ? 0 : stride});
    expect_close(to_floats(out_dtype, arena.read(out, static_cast<std::int64_t>(size))), expected, tolerance(out_dtype));
  });
}

TEST(AttentionSteps, TinyScoresAndSums) {
  expect_query_key(equal(1, 1, 1, 1), 16);
  expect_weights_value(equal(1, 1, 1, 1), 16);
  for (const Shape& shape : {equal(2, 5, 17, 2), equal(1, 17, 5, 3), equal(1, 3, 33, 2)}) {
    for (const std::int32_t head_dim : {13, 64}) {
      expect_query_key(shape, head_dim);
      expect_weights_value(shape, head_dim);
    }
  }
}

TEST(AttentionSteps, TinyScoresAndSumsOfRaggedBatches) {
  for (const Shape& shape : ragged_shapes()) {
    expect_query_key(shape, 20, DType::f32, 7);
    expect_weights_value(shape, 20, DType::f32, 7);
  }
  for (const DType dtype : {DType::f16, DType::bf16}) {
    expect_query_key(ragged_shapes()[0], 16, dtype);
    expect_weights_value(ragged_shapes()[0], 16, dtype);
  }
}

TEST(AttentionSteps, ScoresAndSums) {
  struct Large {
    Shape shape;
    std::int32_t head_dim;
  };
  for (const Large& c : {Large{equal(4, 33, 129, 8), 128}, Large{equal(1, 1, 3000, 4), 96}, Large{equal(2, 70, 70, 5), 256},
                         Large{{.sequences = {{300, 200}, {1000, 1}, {64, 64}}, .heads = 4}, 72}}) {
    expect_query_key(c.shape, c.head_dim);
    expect_weights_value(c.shape, c.head_dim);
  }
}

TEST(AttentionSteps, TinyScale) {
  for (const std::int64_t count : {1, 63, 257, 1000}) {
    Random random(at(count));
    const std::vector<float> x = random.normals(count, 30.0f);
    std::vector<float> scaled = x;
    std::ranges::for_each(scaled, [](float& value) { value *= 0.3f; });
    std::vector<float> capped = x;
    std::ranges::for_each(capped,
                          [](float& value) { value = static_cast<float>(20.0 * std::tanh(0.3 * double{value} / 20.0)); });
    for_each<Scale>({}, equal(1, 1, static_cast<std::int32_t>(count), 1), [&](Arena& arena, const auto& call) {
      float* data = arena.in_out(x);
      call({.x = data, .count = count, .factor = 0.3f});
      EXPECT_TRUE(same_bits(arena.read(data, count), scaled));
      float* other = arena.in_out(x);
      call({.x = other, .count = count, .factor = 0.3f, .soft_cap = 20.0f});
      const std::vector<float> out = arena.read(other, count);
      for (std::size_t i = 0; i < out.size(); ++i) {
        ASSERT_NEAR(out[i], capped[i], 20.0 * 0x1p-21) << i;  // a GPU's tanh is right within 2^-22, absolutely
      }
    });
  }
}

TEST(AttentionSteps, TinyScaleOfColumns) {
  for (const std::int64_t width : {1, 7, 64}) {
    constexpr std::int64_t rows = 5;
    Random random(at(width));
    const std::vector<float> x = random.normals(rows * width, 3.0f);
    const std::vector<float> weights = random.normals(width, 1.0f);
    const std::vector<float> most = random.normals(width, 1.0f);
    std::vector<float> least = most;
    std::ranges::for_each(least, [](float& value) { value -= 2.0f; });
    std::vector<float> scaled = x;
    std::vector<float> limited = x;
    for (std::size_t i = 0; i < x.size(); ++i) {
      const std::size_t column = i % static_cast<std::size_t>(width);
      scaled[i] = x[i] * 0.5f * weights[column];
      limited[i] = std::clamp(scaled[i], least[column], most[column]);
    }
    EXPECT_NE(limited, scaled);
    for_each<Scale>({}, equal(1, 1, static_cast<std::int32_t>(x.size()), 1), [&](Arena& arena, const auto& call) {
      float* data = arena.in_out(x);
      const auto count = std::ssize(x);
      call({.x = data, .count = count, .factor = 0.5f, .width = width, .weights = arena.in(weights)});
      EXPECT_TRUE(same_bits(arena.read(data, count), scaled));
      float* other = arena.in_out(x);
      call({.x = other,
            .count = count,
            .factor = 0.5f,
            .width = width,
            .weights = arena.in(weights),
            .least = arena.in(least),
            .most = arena.in(most)});
      EXPECT_TRUE(same_bits(arena.read(other, count), limited));
    });
  }
}

struct Visibility {
  std::int32_t window = 0;
  bool causal = true;
  bool mask = false;
};

void expect_mask(const Shape& shape, const Visibility& visible) {
  SCOPED_TRACE(testing::Message() << "window " << visible.window << (visible.causal ? " causal" : "")
                                  << (visible.mask ? " mask" : ""));
  Random random(9);
  const std::vector<float> scores = random_scores(shape, random, 1.0f);
  const std::int64_t mask_stride = shape.kv_len() + 2;
  std::vector<float> mask = random.normals(shape.tokens() * mask_stride);
  for (std::size_t i = 0; i < mask.size(); i += 7) {
    mask[i] = minus_infinity;
  }
  std::vector<float> expected = scores;
  shape.for_each_row([&](const Row& row) {
    for (std::int64_t j = 0; j < row.keys; ++j) {
      float& score = expected[at(row.index * shape.kv_len() + j)];
      const bool is_later = visible.causal ? j > row.position : visible.window > 0 && j >= row.position + visible.window;
      const bool hidden = is_later || (visible.window > 0 && j <= row.position - visible.window);
      score = hidden ? minus_infinity : visible.mask ? score + mask[at(row.token * mask_stride + j)] : score;
    }
  });
  for_each<CausalMask>({}, shape, [&](Arena& arena, const auto& call) {
    float* data = arena.in_out(scores);
    call({.scores = data,
          .shape = shape.in(arena),
          .window = visible.window,
          .causal = visible.causal,
          .mask = visible.mask ? arena.in(mask) : nullptr,
          .mask_stride = mask_stride});
    EXPECT_TRUE(same_bits(arena.read(data, shape.scores()), expected));
  });
}

TEST(AttentionSteps, TinyCausalMask) {
  for (const Shape& shape : {equal(3, 17, 17, 1), equal(2, 5, 40, 2), equal(2, 9, 5, 1), equal(1, 1, 1, 1)}) {
    expect_mask(shape, {});
    expect_mask(shape, {.window = 7});
    expect_mask(shape, {.causal = false, .mask = true});
  }
  for (const Shape& shape : ragged_shapes()) {
    expect_mask(shape, {});
    expect_mask(shape, {.window = 4, .mask = true});
    expect_mask(shape, {.causal = false});
    expect_mask(shape, {.window = 4, .causal = false});
  }
}

TEST(AttentionSteps, CausalMask) {
  expect_mask(equal(4, 129, 257, 8), {});
  expect_mask(equal(1, 1, 70000, 1), {.window = 100});
  expect_mask(equal(5000, 2, 3, 7), {});  // more rows than a grid may have along its second side
}

void expect_softmax(const Shape& shape, float deviation, bool with_sinks = false) {
  Random random(at(shape.kv_len()));
  std::vector<float> x = random_scores(shape, random, deviation);
  const std::vector<float> sinks = random.normals(shape.heads, deviation);
  std::vector<float> expected = poisoned(shape.scores());
  std::int64_t count = 0;
  shape.for_each_row([&](const Row& row) {
    const auto scores = std::span(x).subspan(at(row.index * shape.kv_len()), at(row.keys));
    for (std::size_t j = 0; j < scores.size(); ++j) {
      scores[j] = j % 5 == 0 || count % 4 == 3 ? minus_infinity : scores[j];
    }
    ++count;
    const double sink = with_sinks ? double{sinks[at(row.head)]} : double{minus_infinity};
    double largest = sink;
    for (const float score : scores) {
      largest = std::max(largest, double{score});
    }
    double total = std::isinf(largest) ? 1.0 : std::exp(sink - largest);
    for (const float score : scores) {
      total += std::isinf(largest) ? 0.0 : std::exp(double{score} - largest);
    }
    for (std::size_t j = 0; j < scores.size(); ++j) {
      expected[at(row.index * shape.kv_len()) + j] =
          std::isinf(largest) ? 0.0f : static_cast<float>(std::exp(double{scores[j]} - largest) / total);
    }
  });
  for_each<RowSoftmax>({}, shape, [&](Arena& arena, const auto& call) {
    float* data = arena.in_out(x);
    call({.scores = data, .shape = shape.in(arena), .sinks = with_sinks ? arena.in(sinks) : nullptr});
    const std::vector<float> out = arena.read(data, shape.scores());
    expect_close(out, expected, 1e-5);
    for (std::size_t i = 0; i < out.size(); ++i) {
      ASSERT_TRUE(expected[i] != 0.0f || x[i] != minus_infinity || out[i] == 0.0f) << "a masked score";
    }
  });
}

TEST(AttentionSteps, TinyRowSoftmax) {
  for (const std::int32_t cols : {1, 2, 33, 64, 65, 257}) {
    expect_softmax(equal(1, 5, cols, 1), 3.0f);
    expect_softmax(equal(1, 5, cols, 2), 3.0f, true);
  }
  expect_softmax(equal(1, 3, 100, 1), 1000.0f);
  for (const Shape& shape : ragged_shapes()) {
    expect_softmax(shape, 3.0f);
    expect_softmax(shape, 3.0f, true);
  }
}

TEST(AttentionSteps, RowSoftmax) {
  for (const std::int32_t cols : {31, 127, 1024, 1025, 5000, 40000}) {
    expect_softmax(equal(1, 9, cols, 1), 3.0f);
  }
  expect_softmax(equal(1, 70000, 3, 1), 3.0f);
}

/// Heads [first, first + heads) of `q_heads`, from pages in random order.
void expect_replicate_pages(const Shape& shape, const KvLayout& layout, std::int32_t q_heads, std::int32_t first_head) {
  const ReplicateKv::Spec spec{q_heads, layout};
  Random random(16);
  std::vector<std::int32_t> lengths;
  for (const SequenceShape& s : shape.sequences) {
    lengths.push_back(s.kv_len);
  }
  const PagedSequences sequences(lengths, layout.dtype, layout.kv_heads, layout.head_dim, random);
  PagedCache cache(layout, lengths, 3);
  for (std::size_t s = 0; s < lengths.size(); ++s) {
    cache.write(sequences, s, 0, lengths[s]);
  }
  const std::int64_t count = shape.batch() * shape.kv_len() * shape.heads * layout.head_dim;
  std::vector<float> expected_k = poisoned(count);
  std::vector<float> expected_v = poisoned(count);
  for (std::int64_t s = 0; s < shape.batch(); ++s) {
    for (std::int32_t i = 0; i < lengths[at(s)] * shape.heads * layout.head_dim && shape.has_rows(shape.sequences[at(s)]);
         ++i) {
      const std::int32_t dim = i % layout.head_dim;
      const std::int32_t head = (first_head + i / layout.head_dim % shape.heads) / (q_heads / layout.kv_heads);
      const std::int32_t key = i / layout.head_dim / shape.heads;
      const std::int64_t to = s * shape.kv_len() * shape.heads * layout.head_dim + i;
      expected_k[at(to)] = cache.k(at(s), key, head, dim);
      expected_v[at(to)] = cache.v(at(s), key, head, dim);
    }
  }
  const BatchPlan plan = make_batch(shape.sequences, cache);
  for_each<ReplicateKv>(spec, shape, [&](Arena& arena, const auto& call) {
    float* k_out = arena.out<float>(count);
    float* v_out = arena.out<float>(count);
    const auto* data = arena.in(cache.bytes());
    call({.cache = {const_cast<std::byte*>(data), cache.view().num_blocks},
          .block_tables = arena.in(plan.block_tables),
          .max_blocks = plan.max_blocks,
          .shape = shape.in(arena),
          .first_head = first_head,
          .k_out = k_out,
          .v_out = v_out});
    expect_close(arena.read(k_out, count), expected_k, 0.0);
    expect_close(arena.read(v_out, count), expected_v, 0.0);
  });
}

TEST(AttentionSteps, TinyReplicateKvOfPages) {
  const std::vector<SequenceShape> sequences = {{33, 5}, {7, 1}, {20, 20}};
  for (const KvTypes& dtype :
       {KvTypes(DType::f32), KvTypes(DType::f16), KvTypes(DType::bf16), KvTypes(DType::q8_0), KvTypes(DType::q4_0),
        KvTypes(DType::q8_0, DType::q5_1), KvTypes(DType::iq4_nl, DType::f16)}) {
    const KvLayout layout{.dtype = dtype, .block_tokens = 16, .kv_heads = 2, .head_dim = 32};
    expect_replicate_pages({.sequences = sequences, .heads = 8}, layout, 8, 0);
    expect_replicate_pages({.sequences = sequences, .heads = 3}, layout, 8, 2);
    expect_replicate_pages({.sequences = sequences, .heads = 4, .first_row = 2}, layout, 4, 0);
  }
  expect_replicate_pages({.sequences = sequences, .heads = 4, .computed = SequenceRows::single},
                         {.dtype = DType::f16, .block_tokens = 16, .kv_heads = 1, .head_dim = 13}, 4, 0);
}

/// [batch, kv_len, kv_heads, head_dim] as [batch, kv_len, q_heads, head_dim].
void expect_replicate_dense(std::int32_t q_heads, std::int32_t kv_heads, std::int32_t head_dim, const Shape& shape) {
  const ReplicateKv::Spec spec{q_heads, {.dtype = DType::f32, .kv_heads = kv_heads, .head_dim = head_dim}};
  Random random(16);
  const std::int64_t tokens = shape.batch() * shape.kv_len();
  const std::vector<float> k = random.normals(tokens * kv_heads * head_dim);
  const std::vector<float> v = random.normals(tokens * kv_heads * head_dim);
  const auto replicated = [&](const std::vector<float>& from) {
    std::vector<float> to;
    for (std::int64_t t = 0; t < tokens; ++t) {
      for (std::int32_t h = 0; h < q_heads; ++h) {
        const auto head = from.begin() + (t * kv_heads + h / (q_heads / kv_heads)) * head_dim;
        to.insert(to.end(), head, head + head_dim);
      }
    }
    return to;
  };
  for_each<ReplicateKv>(spec, shape, [&](Arena& arena, const auto& call) {
    const std::int64_t count = tokens * q_heads * head_dim;
    float* k_out = arena.out<float>(count);
    float* v_out = arena.out<float>(count);
    const std::int64_t width = std::int64_t{kv_heads} * head_dim;
    call({.dense = {arena.in(k), arena.in(v), shape.kv_len() * width, width, head_dim},
          .shape = shape.in(arena),
          .k_out = k_out,
          .v_out = v_out});
    EXPECT_TRUE(same_bits(arena.read(k_out, count), replicated(k)));
    EXPECT_TRUE(same_bits(arena.read(v_out, count), replicated(v)));
  });
}

TEST(AttentionSteps, TinyReplicateKv) {
  expect_replicate_dense(8, 2, 16, equal(1, 1, 5, 8));
  expect_replicate_dense(4, 1, 13, equal(2, 3, 3, 4));
  expect_replicate_dense(2, 2, 64, equal(1, 2, 2, 2));
}

TEST(AttentionSteps, ReplicateKv) { expect_replicate_dense(32, 8, 128, equal(3, 1, 100, 32)); }

}  // namespace
}  // namespace rocmforge::test::attention_steps_test
