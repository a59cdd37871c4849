// Rows that see further than themselves: the tokens of an image that see each other in both directions.

#include <gmock/gmock.h>

#include "conformance/attention_cases.h"
#include "conformance/attention_problem.h"

namespace rocmforge::test::attention_spans_test {
namespace {

Attention::Spec with_spans(Attention::Spec spec) {
  spec.spans = true;
  return spec;
}

struct SpanCase {
  const char* name;
  Attention::Spec spec;
  std::vector<SequenceShape> shapes;
  std::vector<SpanOfRows> spans;
};

void PrintTo(const SpanCase& c, std::ostream* out) { *out << c.name; }
std::string case_name(const testing::TestParamInfo<SpanCase>& test) { return test.param.name; }

/// Texts before, between and after images; an image at the start of a step behind others, a whole prompt, a single row.
const std::vector<SequenceShape> some_shapes = {{90, 90}, {150, 40}, {21, 21}, {33, 1}, {19, 19}};
const std::vector<SpanOfRows> some_spans = {{0, 5, 30}, {0, 60, 17}, {1, 0, 25}, {2, 0, 21}};

std::vector<SpanCase> span_cases() {
  Attention::Spec window = heads(8, 4, 256);
  window.window = 20;
  Attention::Spec capped = heads(4, 2, 128, DType::bf16);
  capped.soft_cap = 8.0f;
  capped.sinks = true;
  return {{"plain", heads(4, 2, 64), some_shapes, some_spans},
          {"of_128", heads(4, 1, 128), some_shapes, some_spans},
          {"window", window, some_shapes, some_spans},
          {"capped", capped, some_shapes, some_spans},
          {"q8_0", heads(6, 2, 96, DType::q8_0), some_shapes, some_spans},
          {"q4_1", heads(6, 2, 96, rotated(KvTypes(DType::q5_0, DType::q4_1))), some_shapes, some_spans},
          {"f32", heads(5, 1, 72, DType::f32), some_shapes, some_spans},
          {"wide", heads(4, 2, 512), {{40, 40}, {70, 9}}, {{0, 3, 30}, {1, 2, 7}}},
          {"longer_than_tiles", heads(2, 1, 128), {{600, 600}}, {{0, 100, 300}}}};
}

std::vector<SpanCase> tiny_span_cases() {
  Attention::Spec window = heads(2, 1, 128);
  window.window = 7;
  const std::vector<SequenceShape> shapes = {{40, 40}, {70, 9}, {33, 1}};
  const std::vector<SpanOfRows> spans = {{0, 3, 30}, {1, 2, 7}};
  return {{"window", window, shapes, spans},
          {"of_256", heads(2, 2, 256, DType::bf16), shapes, spans},
          {"odd", heads(3, 1, 40, DType::f32), shapes, spans}};
}

class AttentionSpans : public testing::TestWithParam<SpanCase> {};

TEST_P(AttentionSpans, EqualsTheReference) {
  const SpanCase& c = GetParam();
  const Attention::Spec spec = with_spans(c.spec);
  const AttentionProblem problem(spec, c.shapes, 3);
  const AttentionCall call{.padding = 2, .spans = c.spans};
  const std::vector<float> expected = problem.run_reference(call);
  harness().for_each_kernel<Attention>(spec, [&](const AttentionBackend& kernel) {
    const std::vector<float> actual = problem.run(kernel, call);
    EXPECT_LE(relative_error(actual, expected), attention_tolerance(spec, kernel.device())) << kernel.name();
  });
}

INSTANTIATE_TEST_SUITE_P(Tiny, AttentionSpans, testing::ValuesIn(tiny_span_cases()), case_name);
INSTANTIATE_TEST_SUITE_P(Shapes, AttentionSpans, testing::ValuesIn(span_cases()), case_name);

/// What a row sees, by the reference without spans: rows outside spans are causal ones; those of a sequence that is one span
/// see all keys.
TEST(AttentionSpansMeaning, TinyRowsOfASpanSeeEachOther) {
  const Attention::Spec causal = heads(2, 1, 32, DType::f32);
  Attention::Spec full = causal;
  full.causal = false;
  const std::vector<SequenceShape> shapes = {{20, 20}};
  const std::vector<float> of_causal = AttentionProblem(causal, shapes, 9).run_reference();
  const std::vector<float> of_full = AttentionProblem(full, shapes, 9).run_reference();
  const AttentionProblem problem(with_spans(causal), shapes, 9);
  EXPECT_TRUE(same_bits(problem.run_reference({.spans = {{0, 0, 20}}}), of_full));
  const std::vector<float> part = problem.run_reference({.spans = {{0, 4, 6}}});
  const auto rows = [&](const std::vector<float>& all, std::int64_t first, std::int64_t count) {
    const auto width = static_cast<std::size_t>(problem.out_width());
    return std::span(all).subspan(static_cast<std::size_t>(first) * width, static_cast<std::size_t>(count) * width);
  };
  EXPECT_TRUE(same_bits(rows(part, 0, 4), rows(of_causal, 0, 4)));
  EXPECT_TRUE(same_bits(rows(part, 9, 11), rows(of_causal, 9, 11))) << "the last row of a span sees what it would without";
  EXPECT_FALSE(same_bits(rows(part, 4, 5), rows(of_causal, 4, 5)));
}

/// A row's bits do not depend on what is in the step beside its sequence, nor on how the text around a span is cut.
TEST(AttentionSpansMeaning, TinyStepsAroundASpanGiveTheSameBits) {
  const Attention::Spec spec = with_spans(heads(4, 2, 128));
  const AttentionProblem problem(spec, {{60, 60}}, 13);
  harness().for_each_kernel<Attention>(spec, [&](const AttentionBackend& kernel) {
    const std::vector<float> whole = problem.run(kernel, {.spans = {{0, 20, 15}}});
    PagedCache cache(kernel.layout(spec), kv_lengths(problem.shapes), 99);
    std::vector<float> out;
    for (const auto& [first, count] : std::vector<std::pair<std::int32_t, std::int32_t>>{{0, 17}, {17, 20}, {37, 23}}) {
      cache.write(problem.kv, 0, first, first + count);
      const SequenceShape shape{first + count, count};
      const auto rows = std::span(problem.q).subspan(static_cast<std::size_t>(first * problem.width()),
                                                     static_cast<std::size_t>(count * problem.width()));
      // A step without an image has no spans, but a kernel for spans takes it; each row is then a span of its own.
      const std::vector<SpanOfRows> spans = {first == 17 ? SpanOfRows{0, 3, 15} : SpanOfRows{0, 0, 1}};
      const auto part = run_attention(kernel, problem, cache, {&shape, 1}, rows, {.spans = spans});
      out.insert(out.end(), part.begin(), part.end());
    }
    EXPECT_TRUE(same_bits(out, whole)) << kernel.name();
  });
}

TEST(AttentionSpansMeaning, TinyWrongEndsAreNamed) {
  const Attention::Spec spec = with_spans(heads(2, 1, 64));
  const AttentionProblem problem(spec, {{20, 4}}, 9);
  const AttentionBackend& kernel = harness().reference<Attention>(spec);
  const auto complaint = [&](const Attention::Spec& of, std::vector<std::int32_t> ends) -> std::string {
    PagedCache cache(kernel.layout(spec), kv_lengths(problem.shapes), 1);
    Arena arena(harness().host);
    BatchPlan plan = make_batch(problem.shapes, cache);
    plan.visible_end = std::move(ends);
    Attention::Args args;
    args.q = arena.in(std::vector<float>(std::size_t{4} * 128));
    args.q_stride = 128;
    args.out = arena.out<float>(std::int64_t{4} * 128);
    args.cache = {arena.in_out(cache.bytes()), cache.view().num_blocks};
    args.batch = arena.batch(plan);
    try {
      kernel.run(of, cache.layout(), args, harness().host.context);
    } catch (const LogicError& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_THAT(complaint(spec, {17, 18, 18, 20}), testing::HasSubstr("token 2 sees 18 keys, not 19 to 20"));
  EXPECT_THAT(complaint(spec, {17, 20, 19, 20}), testing::HasSubstr("token 2 sees 19 keys, not 20 to 20"));
  EXPECT_THAT(complaint(spec, {17, 18, 19, 21}), testing::HasSubstr("token 3 sees 21 keys, not 20 to 20"));
  EXPECT_THAT(complaint(spec, {}), testing::HasSubstr("batch.visible_end is null"));
  EXPECT_THAT(complaint(heads(2, 1, 64), {17, 18, 19, 20}), testing::HasSubstr("the spec is without spans"));
}

}  // namespace
}  // namespace rocmforge::test::attention_spans_test
