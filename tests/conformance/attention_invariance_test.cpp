// A token's attention has the same bits however its sequence was split into steps, whatever else is in the batch, at any
// block ids and on any number of threads.

#include "conformance/attention_problem.h"

namespace rocmforge::test {
namespace {

struct Variant {
  const char* name;
  Attention::Spec spec;
  std::int32_t length;
};

std::vector<Variant> variants() {
  Attention::Spec plain{.q_heads = 8, .kv_heads = 2, .head_dim = 64};
  Attention::Spec window = plain;
  window.window = 70;
  Attention::Spec sinks = plain;
  sinks.sinks = true;
  sinks.soft_cap = 8.0f;
  Attention::Spec multi_query{.q_heads = 20, .kv_heads = 1, .head_dim = 128, .kv_dtype = DType::bf16};
  Attention::Spec odd{.q_heads = 6, .kv_heads = 2, .head_dim = 72, .kv_dtype = DType::f32};
  Attention::Spec quants{.q_heads = 8, .kv_heads = 2, .head_dim = 96, .kv_dtype = DType::q8_0};
  Attention::Spec wide{.q_heads = 4, .kv_heads = 2, .head_dim = 512};
  wide.window = 70;
  Attention::Spec latent{.q_heads = 20, .kv_heads = 1, .head_dim = 96, .kv_dtype = DType::bf16, .value_dim = 64};
  Attention::Spec latent_of_576{.q_heads = 5, .kv_heads = 1, .head_dim = 576, .kv_dtype = DType::f16, .value_dim = 512};
  return {{"plain", plain, 300}, {"quants", quants, 300},           {"window", window, 300},
          {"sinks", sinks, 150}, {"multi_query", multi_query, 290}, {"odd", odd, 140},
          {"wide", wide, 200},   {"latent", latent, 290},           {"latent_of_576", latent_of_576, 290}};
}

class AttentionInvariance : public testing::TestWithParam<Variant> {
 protected:
  AttentionInvariance() : problem_(GetParam().spec, {{GetParam().length, GetParam().length}}, 21) {}

  [[nodiscard]] std::int64_t width() const { return problem_.width(); }
  [[nodiscard]] std::int64_t out_width() const { return problem_.out_width(); }

  /// The sequence in steps of the given sizes (the last repeats); each step's K and V are written just before it.
  std::vector<float> in_steps(const AttentionBackend& kernel, std::span<const std::int32_t> sizes,
                              ExecutionContext& context) {
    const std::int32_t length = problem_.shapes[0].kv_len;
    PagedCache cache(kernel.layout(problem_.spec), kv_lengths(problem_.shapes), 99);
    std::vector<float> out;
    std::size_t step = 0;
    for (std::int32_t done = 0; done < length; ++step) {
      const std::int32_t count = std::min(sizes[std::min(step, sizes.size() - 1)], length - done);
      cache.write(problem_.kv, 0, done, done + count);
      const SequenceShape shape{done + count, count};
      const auto rows =
          std::span(problem_.q).subspan(static_cast<std::size_t>(done * width()), static_cast<std::size_t>(count * width()));
      const auto part = run_attention(kernel, problem_, cache, {&shape, 1}, rows, {.context = &context});
      out.insert(out.end(), part.begin(), part.end());
      done += count;
    }
    return out;
  }

  AttentionProblem problem_;
};

TEST_P(AttentionInvariance, CutIntoSteps) {
  harness().for_each_kernel<Attention>(problem_.spec, [&](const AttentionBackend& kernel) {
    const std::vector<float> whole = problem_.run(kernel);
    const std::vector<std::vector<std::int32_t>> cuts = {{1}, {16, 17, 1, 1, 129, 3}, {128}, {100, 1}};
    for (const auto& sizes : cuts) {
      EXPECT_TRUE(same_bits(in_steps(kernel, sizes, harness().context), whole))
          << "steps of " << testing::PrintToString(sizes);
    }
  });
}

TEST_P(AttentionInvariance, AnyNumberOfThreads) {
  ROCMFORGE_CPU_ONLY("a GPU has no pool");
  harness().for_each_kernel<Attention>(problem_.spec, [&](const AttentionBackend& kernel) {
    const std::vector<std::int32_t> steps = {37, 1, 1, 100, 1, 80};
    ExecutionContext alone;
    const std::vector<float> expected = in_steps(kernel, steps, alone);
    for (const int threads : {1, 2, 5}) {
      ThreadPool pool(threads);
      ExecutionContext context{&pool};
      EXPECT_TRUE(same_bits(in_steps(kernel, steps, context), expected)) << threads << " threads";
    }
  });
}

TEST_P(AttentionInvariance, AmongOtherSequences) {
  harness().for_each_kernel<Attention>(problem_.spec, [&](const AttentionBackend& kernel) {
    const std::int32_t length = problem_.shapes[0].kv_len;
    const std::vector<float> whole = problem_.run(kernel);
    // The last five tokens of our sequence, as the second of three sequences.
    AttentionProblem batch(problem_.spec, {{200, 200}, {length, 5}, {77, 1}}, 22);
    batch.sinks = problem_.sinks;
    batch.kv.k[1] = problem_.kv.k[0];
    batch.kv.v[1] = problem_.kv.v[0];
    std::copy_n(problem_.q.end() - 5 * width(), 5 * width(), batch.q.begin() + 200 * width());
    const std::vector<float> out = batch.run(kernel);
    const auto ours =
        std::span(out).subspan(static_cast<std::size_t>(200 * out_width()), static_cast<std::size_t>(5 * out_width()));
    EXPECT_TRUE(same_bits(ours, std::span(whole).last(static_cast<std::size_t>(5 * out_width()))));
  });
}

/// Decode kernels distribute a batch's keys evenly. The points where a sequence is split must not depend on other sequences.
TEST_P(AttentionInvariance, DecodeAmongOtherSequences) {
  Attention::Spec spec = problem_.spec;
  spec.most_rows = 1;
  for (const std::int32_t length : {40, GetParam().length, 1000}) {
    const AttentionProblem alone(spec, {{length, 1}}, 23);
    for (const std::int32_t others : {0, 3, 40}) {
      std::vector<SequenceShape> shapes(static_cast<std::size_t>(others), {290, 1});
      shapes.insert(shapes.end(), {{length, 1}, {77, 1}, {2000, 1}});
      const auto ours = static_cast<std::size_t>(others);
      AttentionProblem batch(spec, shapes, 24);
      batch.sinks = alone.sinks;
      batch.kv.k[ours] = alone.kv.k[0];
      batch.kv.v[ours] = alone.kv.v[0];
      std::ranges::copy(alone.q, batch.q.begin() + others * width());
      harness().for_each_kernel<Attention>(spec, [&](const AttentionBackend& kernel) {
        const std::vector<float> out = batch.run(kernel, {.padding = others});
        const auto row =
            std::span(out).subspan(ours * static_cast<std::size_t>(out_width()), static_cast<std::size_t>(out_width()));
        EXPECT_TRUE(same_bits(row, alone.run(kernel))) << length << " keys among " << others + 2 << " others";
      });
    }
  }
}

TEST_P(AttentionInvariance, AnyBlocks) {
  harness().for_each_kernel<Attention>(problem_.spec, [&](const AttentionBackend& kernel) {
    const std::vector<float> expected = problem_.run(kernel);
    for (const std::int32_t block_tokens : {16, 64, 256}) {
      EXPECT_TRUE(same_bits(problem_.run(kernel, {.block_tokens = block_tokens, .block_seed = 5}), expected))
          << block_tokens << " tokens a block";
    }
  });
}

/// Kernels for a latent plane may combine the parts of a long sequence in another way, and may use other launches if a batch
/// has such a sequence.
TEST(AttentionInvarianceOfLatents, DecodeAmongLongerSequences) {
  const Attention::Spec spec{
      .q_heads = 3, .kv_heads = 1, .head_dim = 576, .kv_dtype = DType::f16, .most_rows = 1, .value_dim = 512};
  for (const std::int32_t length : {1, 1000, 4096, 4097, 5000}) {
    const AttentionProblem alone(spec, {{length, 1}}, 25);
    AttentionProblem batch(spec, {{9000, 1}, {length, 1}, {300, 1}}, 26);
    batch.kv.k[1] = alone.kv.k[0];
    batch.kv.v[1] = alone.kv.v[0];
    std::ranges::copy(alone.q, batch.q.begin() + batch.width());
    harness().for_each_kernel<Attention>(spec, [&](const AttentionBackend& kernel) {
      const std::vector<float> out = batch.run(kernel);
      const auto width = static_cast<std::size_t>(batch.out_width());
      EXPECT_TRUE(same_bits(std::span(out).subspan(width, width), alone.run(kernel))) << length << " keys";
    });
  }
}

INSTANTIATE_TEST_SUITE_P(Specs, AttentionInvariance, testing::ValuesIn(variants()),
                         [](const auto& test) { return std::string(test.param.name); });

}  // namespace
}  // namespace rocmforge::test
