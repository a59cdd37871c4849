#include <cmath>

#include "conformance/attention_cases.h"

// RopeAppend as part of a decode call (AttentionBackend::takes), compared with two calls of the reference, and bit for bit
// with two calls of the device's own kernels.

namespace rocmforge::test::attention_append_test {
namespace {

struct AppendCase {
  const char* name;
  Attention::Spec spec;
  RopeAppend::Spec append;  ///< without what follows from `spec`
  std::vector<SequenceShape> shapes;
};

void PrintTo(const AppendCase& c, std::ostream* out) { *out << c.name; }

/// Q, K and V of a step side by side, as a fused product leaves them, and what else a call reads.
class AppendProblem {
 public:
  explicit AppendProblem(const AppendCase& c) : case_(c), problem_(decode(c.spec), c.shapes, 37) {
    Random random(38);
    const Attention::Spec& spec = problem_.spec;
    const std::int64_t kv_width = case_.append.append ? std::int64_t{spec.kv_heads} * spec.head_dim : 0;
    stride_ = problem_.width() + 2 * kv_width;
    rows_ = random.normals(static_cast<std::int64_t>(c.shapes.size()) * stride_, 1.5f);
    q_norm_ = random.uniforms(spec.head_dim, 0.5f, 1.5f);
    k_norm_ = random.uniforms(spec.head_dim, 0.5f, 1.5f);
    for (std::int32_t p = 0; p < c.append.n_rot / 2; ++p) {
      inverse_frequency_.push_back(static_cast<float>(std::pow(10000.0, -2.0 * p / c.append.n_rot)));
    }
  }

  struct Result {
    std::vector<float> out;
    std::vector<std::byte> pages;
  };

  /// In pages of `layout`; `fused` in one call, else in two.
  [[nodiscard]] Result run(const AttentionBackend& kernel, const OpKernel<RopeAppend>& append_kernel, const KvLayout& layout,
                           bool fused) const {
    const Attention::Spec& spec = problem_.spec;
    PagedCache cache(layout, kv_lengths(problem_.shapes), 1);
    for (std::size_t s = 0; s < problem_.shapes.size(); ++s) {
      cache.write(problem_.kv, s, 0, problem_.shapes[s].kv_len - (case_.append.append ? 1 : 0));
    }
    BatchPlan plan = make_batch(problem_.shapes, cache);
    for (std::size_t t = 0; t < plan.positions.size(); t += 2) {
      plan.positions[t] += 41;  // positions are not the cells behind an image
    }
    plan.add_padding(kernel.device() == DeviceKind::cpu ? 0 : 2);
    plan.finish();
    std::vector<float> rows = rows_;
    rows.resize(static_cast<std::size_t>(plan.num_tokens() * stride_), std::nanf(""));

    Arena arena(harness().place_of(kernel));
    auto* q = arena.in_out(rows);
    auto* pages = arena.in_out(cache.bytes());
    Attention::Append append{spec_of(layout), {}};
    append.args.q = q;
    append.args.k = q + problem_.width();
    append.args.v = append.args.k + std::int64_t{spec.kv_heads} * spec.head_dim;
    append.args.stride = stride_;
    append.args.q_norm = arena.in(q_norm_);
    append.args.k_norm = arena.in(k_norm_);
    append.args.inverse_frequency = inverse_frequency_.empty() ? nullptr : arena.in(inverse_frequency_);
    append.args.cache = {pages, cache.view().num_blocks};
    append.args.batch = arena.batch(plan);
    const AttentionLimits limits{.max_tokens = plan.num_tokens(),
                                 .max_sequences = plan.num_sequences(),
                                 .max_kv_len = plan.view().max_kv_len,
                                 .num_threads = 1};
    Attention::Args args;
    args.q = q;
    args.q_stride = stride_;
    args.cache = append.args.cache;
    args.batch = append.args.batch;
    args.sinks = spec.sinks ? arena.in(problem_.sinks) : nullptr;
    const std::int64_t out_size = plan.num_tokens() * problem_.out_width();
    auto* out = arena.out<float>(out_size);
    args.out = out;
    args.workspace = arena.workspace(kernel.workspace_bytes(spec, limits));
    args.state = arena.state(kernel.state_bytes(spec, limits));
    args.append = fused ? &append : nullptr;
    arena.run([&](ExecutionContext& context) {
      if (!fused) {
        append_kernel.run(append.spec, append.args, context);
      }
      kernel.run(spec, layout, args, context);
    });
    return {arena.read(out, static_cast<std::int64_t>(problem_.shapes.size()) * problem_.out_width()),
            arena.read(pages, static_cast<std::int64_t>(cache.bytes().size()))};
  }

  [[nodiscard]] const Attention::Spec& spec() const { return problem_.spec; }
  [[nodiscard]] RopeAppend::Spec spec_of(const KvLayout& layout) const {
    RopeAppend::Spec append = case_.append;
    append.q_heads = problem_.spec.q_heads;
    append.head_dim = problem_.spec.head_dim;
    append.layout = layout;
    return append;
  }

 private:
  const AppendCase& case_;
  AttentionProblem problem_;
  std::int64_t stride_;
  std::vector<float> rows_;
  std::vector<float> q_norm_;
  std::vector<float> k_norm_;
  std::vector<float> inverse_frequency_;
};

class AttentionAppend : public testing::TestWithParam<AppendCase> {};

TEST_P(AttentionAppend, EqualsTwoCalls) {
  const AppendProblem problem(GetParam());
  const Attention::Spec& spec = problem.spec();
  int takers = 0;
  harness().for_each_kernel_or_reference<Attention>(spec, [&](const AttentionBackend& kernel) {
    const KvLayout layout = kernel.layout(spec);
    const RopeAppend::Spec append = problem.spec_of(layout);
    if (!kernel.takes(spec, append)) {
      return;
    }
    ++takers;
    const OpKernel<RopeAppend>& own = *harness().registry.choose<RopeAppend>(append, harness().device).kernel;
    const AppendProblem::Result actual = problem.run(kernel, own, layout, true);
    const AppendProblem::Result two_calls = problem.run(kernel, own, layout, false);
    EXPECT_TRUE(same_bits(actual.out, two_calls.out)) << "one call gives other bits than two";
    EXPECT_TRUE(actual.pages == two_calls.pages) << "one call writes other pages than two";
    const AppendProblem::Result expected =
        problem.run(harness().reference<Attention>(spec), harness().reference<RopeAppend>(append), layout, false);
    EXPECT_LE(relative_error(actual.out, expected.out), attention_tolerance(spec, kernel.device()));
  });
  if (takers == 0) {
    GTEST_SKIP() << "no kernel of this device takes an append";
  }
}

constexpr RopeAppend::Spec turned(RopeKind kind, std::int32_t n_rot) {
  RopeAppend::Spec spec;
  spec.kind = kind;
  spec.n_rot = n_rot;
  return spec;
}

RopeAppend::Spec normed(RopeAppend::Spec spec, bool after_turn = false, bool values = false) {
  spec.head_norm = true;
  spec.norm_after_turn = after_turn;
  spec.value_norm = values;
  return spec;
}

RopeAppend::Spec warmed(RopeAppend::Spec spec) {
  spec.magnitude = 1.3f;
  spec.temperature_scale = 0.4f;
  spec.temperature_length = 7;
  return spec;
}

RopeAppend::Spec of_queries(RopeAppend::Spec spec) {
  spec.append = false;
  return spec;
}

std::vector<AppendCase> tiny_cases() {
  const RopeAppend::Spec half_64 = turned(RopeKind::half, 64);
  const std::vector<SequenceShape> few{{33, 1}, {1, 1}, {64, 1}, {65, 1}};
  return {{"groups", heads(8, 2, 64), half_64, few},
          {"adjacent_one_head_each", heads(2, 2, 64), turned(RopeKind::adjacent, 64), few},
          {"norm_128", heads(4, 1, 128), normed(turned(RopeKind::half, 128)), few},
          {"norm_after_part_of_eighty", heads(4, 2, 80, DType::bf16), normed(turned(RopeKind::adjacent, 32), true), few},
          {"value_norm_256", heads(2, 1, 256), normed(turned(RopeKind::half, 256), false, true), {{40, 1}, {1, 1}}},
          {"none", heads(4, 2, 64), turned(RopeKind::none, 0), few},
          {"temperature", heads(4, 2, 64), warmed(half_64), few},
          {"q8_0", heads(4, 2, 64, DType::q8_0), normed(half_64), few},
          {"q8_0_96", heads(4, 4, 96, DType::q8_0), turned(RopeKind::adjacent, 96), few},
          {"queries_alone", heads(4, 2, 64), of_queries(normed(half_64)), few},
          {"two_tiles_of_heads", heads(12, 1, 64), half_64, {{17, 1}, {70, 1}}},
          {"window_and_sinks", options(heads(4, 2, 64), 20, 0.0f, true), half_64, few},
          {"soft_cap", options(heads(4, 2, 64), 0, 5.0f, false), half_64, few},
          {"pieces", heads(8, 2, 64), half_64, {{700, 1}, {257, 1}, {3, 1}}}};
}

std::vector<AppendCase> cases() {
  const RopeAppend::Spec half_128 = turned(RopeKind::half, 128);
  const std::vector<SequenceShape> some{{3000, 1}, {257, 1}, {128, 1}, {1, 1}};
  return {{"groups_of_four", heads(32, 8, 128), normed(half_128), some},
          {"one_head_each", heads(8, 8, 128), turned(RopeKind::adjacent, 128), some},
          {"groups_of_eight_256", heads(16, 2, 256, DType::bf16), turned(RopeKind::half, 64), some},
          {"q8_0", heads(32, 8, 128, DType::q8_0), half_128, some},
          {"window", options(heads(8, 2, 128), 700, 0.0f, true), half_128, some}};
}

std::string case_name(const testing::TestParamInfo<AppendCase>& test) { return test.param.name; }
INSTANTIATE_TEST_SUITE_P(Tiny, AttentionAppend, testing::ValuesIn(tiny_cases()), case_name);
INSTANTIATE_TEST_SUITE_P(Shapes, AttentionAppend, testing::ValuesIn(cases()), case_name);

/// Backends that support no append refuse it and do not ignore it.
TEST(AttentionAppendArguments, TinyAKernelThatTakesNoneRefusesIt) {
  const AppendCase c{"", heads(4, 2, 64), turned(RopeKind::half, 64), {{33, 1}}};
  const AppendProblem problem(c);
  const AttentionBackend& reference = harness().reference<Attention>(problem.spec());
  const KvLayout layout = reference.layout(problem.spec());
  const OpKernel<RopeAppend>& append = harness().reference<RopeAppend>(problem.spec_of(layout));
  EXPECT_THROW((void)problem.run(reference, append, layout, true), LogicError);
}

}  // namespace
}  // namespace rocmforge::test::attention_append_test
