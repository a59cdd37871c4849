// Expected values come from the formulas, written out here: the reference is tested along with the kernels of the device.

#include <algorithm>
#include <cmath>
#include <limits>

#include "conformance/harness.h"

namespace rocmforge::test::streams_test {
namespace {

using Inputs = MixStreams::Inputs;

constexpr std::int64_t streams = MixStreams::streams;

std::size_t at(std::int64_t index) { return static_cast<std::size_t>(index); }

struct Mix {
  MixStreams::Spec spec;
  std::int64_t tokens = 0;
  std::vector<float> x{};
  std::vector<float> row{};
  std::vector<float> logits{};  ///< empty: none
  std::vector<float> base{};
  std::vector<float> coefs{};
  std::vector<float> factors{};  ///< empty: none
};

Mix make_mix(const MixStreams::Spec& spec, std::int64_t tokens, bool steered, bool scaled) {
  Random random(at(spec.dim + tokens));
  const std::int64_t entries = streams * spec.columns();
  Mix mix{.spec = spec, .tokens = tokens};
  mix.x = random.normals(tokens * streams * spec.dim, 2.0f);
  mix.row = random.normals(tokens * spec.dim);
  mix.base = random.normals(entries);
  if (steered) {
    mix.logits = random.normals(tokens * streams);
    mix.coefs = random.normals(entries * streams);
  }
  if (scaled) {
    mix.factors = random.normals(spec.dim);
  }
  return mix;
}

double mean_square(const float* x, std::int64_t dim) {
  double sum = 0.0;
  std::for_each(x, x + dim, [&](float value) { sum += double{value} * double{value}; });
  return sum / static_cast<double>(dim);
}

/// What x and first become.
std::pair<std::vector<float>, std::vector<float>> expected_of(const Mix& mix) {
  const std::int64_t dim = mix.spec.dim;
  const std::int64_t columns = mix.spec.columns();
  std::vector<float> x = mix.x;
  std::vector<float> first(at(mix.tokens * dim));
  for (std::int64_t t = 0; t < mix.tokens; ++t) {
    for (std::int64_t b = 0; b < streams; ++b) {
      std::vector<double> sum(at(dim));
      for (std::int64_t a = 0; a < columns; ++a) {
        const bool is_row = a == streams || (a == 0 && mix.spec.inputs == Inputs::matched);
        const float* const in = is_row ? mix.row.data() + t * dim : mix.x.data() + (t * streams + a) * dim;
        double entry = mix.base[at(b * columns + a)];
        for (std::int64_t j = 0; !mix.logits.empty() && j < streams; ++j) {
          entry +=
              double{mix.coefs[at((b * columns + a) * streams + j)]} * std::tanh(double{mix.logits[at(t * streams + j)]});
        }
        if (mix.spec.inputs == Inputs::matched && !is_row) {
          entry *= std::sqrt(mean_square(mix.row.data() + t * dim, dim) / std::max(mean_square(in, dim), 1e-5));
        }
        for (std::int64_t i = 0; i < dim; ++i) {
          sum[at(i)] += entry * double{in[i]};
        }
      }
      for (std::int64_t i = 0; i < dim; ++i) {
        x[at((t * streams + b) * dim + i)] = static_cast<float>(sum[at(i)]);
        if (b == 0) {
          first[at(t * dim + i)] = static_cast<float>(sum[at(i)] * (mix.factors.empty() ? 1.0 : double{mix.factors[at(i)]}));
        }
      }
    }
  }
  return {x, first};
}

void expect_mix(const Mix& mix, bool in_place = false) {
  const auto expected = expected_of(mix);
  harness().for_each_kernel_or_reference<MixStreams>(mix.spec, [&](const OpKernel<MixStreams>& kernel) {
    Arena arena(harness().place_of(kernel));
    const std::int64_t count = mix.tokens * mix.spec.dim;
    MixStreams::Args args{.x = arena.in_out(mix.x), .base = arena.in(mix.base), .tokens = mix.tokens};
    float* const row = arena.in_out(mix.row);
    args.row = mix.spec.has_row() ? row : nullptr;
    args.logits = mix.logits.empty() ? nullptr : arena.in(mix.logits);
    args.coefs = mix.logits.empty() ? nullptr : arena.in(mix.coefs);
    args.factors = mix.factors.empty() ? nullptr : arena.in(mix.factors);
    args.first = in_place ? row : arena.out<float>(count);
    arena.run([&](ExecutionContext& context) { kernel.run(mix.spec, args, context); });
    EXPECT_LE(relative_error(arena.read(args.x, streams * count), expected.first), 2e-6);
    EXPECT_LE(relative_error(arena.read(args.first, count), expected.second), 2e-6);
  });
}

TEST(MixStreamsConformance, TinyEveryInputWithLogitsAndWithout) {
  for (const Inputs inputs : {Inputs::streams, Inputs::and_row, Inputs::matched}) {
    for (const bool steered : {false, true}) {
      expect_mix(make_mix({20, inputs}, 3, steered, steered));
      expect_mix(make_mix({33, inputs}, 2, steered, !steered));
    }
  }
}

TEST(MixStreamsConformance, TinyTheFirstStreamTakesThePlaceOfTheRow) {
  for (const Inputs inputs : {Inputs::and_row, Inputs::matched}) {
    expect_mix(make_mix({300, inputs}, 2, true, false), true);
  }
}

/// Streams of zeros have no magnitude to be divided by. What the first stream has is not read.
TEST(MixStreamsConformance, TinyMatchedStreamsMayBeZeros) {
  Mix mix = make_mix({16, Inputs::matched}, 2, false, false);
  std::fill(mix.x.begin() + 2 * 16, mix.x.begin() + 4 * 16, 0.0f);
  Mix unread = mix;
  std::fill_n(unread.x.begin(), 16, std::numeric_limits<float>::quiet_NaN());
  expect_mix(mix);
  expect_mix(unread);
}

TEST(MixStreamsConformance, StreamsOfRealModels) {
  for (const Inputs inputs : {Inputs::streams, Inputs::and_row, Inputs::matched}) {
    expect_mix(make_mix({2048, inputs}, 40, true, true));
  }
}

void expect_cut(const CutRows::Spec& spec, std::int64_t rows, std::int64_t stride) {
  Random random(at(spec.width));
  const std::vector<float> x = random.normals(rows * stride, 1.5f);
  std::vector<float> expected = x;
  const auto width = static_cast<double>(spec.width);
  for (std::int64_t r = 0; r < rows; ++r) {
    const auto row = expected.begin() + r * stride;
    double sum = 0.0;
    double squares = 0.0;
    std::for_each(row, row + spec.width, [&](float value) {
      sum += double{value};
      squares += double{value} * double{value};
    });
    const double least = sum / width + double{spec.deviations} * std::sqrt(squares / width - sum / width * (sum / width));
    std::transform(row, row + spec.width, row,
                   [&](float value) { return static_cast<float>(std::max(double{value} - least, 0.0)); });
  }
  harness().for_each_kernel_or_reference<CutRows>(spec, [&](const OpKernel<CutRows>& kernel) {
    Arena arena(harness().place_of(kernel));
    const CutRows::Args args{.x = arena.in_out(x), .rows = rows, .stride = stride};
    arena.run([&](ExecutionContext& context) { kernel.run(spec, args, context); });
    EXPECT_LE(relative_error(arena.read(args.x, rows * stride), expected), 2e-6);
  });
}

TEST(CutRowsConformance, TinyRowsKeepWhatIsFarAboveTheirMean) {
  for (const float deviations : {-0.5f, 0.0f, 1.6448536f}) {
    expect_cut({32, deviations}, 3, 32);
    expect_cut({77, deviations}, 2, 160);
  }
  expect_cut({300, 1.0f}, 2, 600);
}

/// Nothing is above the mean of equal elements. With another mean they leave what rounding leaves.
TEST(CutRowsConformance, TinyEqualElementsAreCut) {
  const CutRows::Spec spec{24, 1.0f};
  harness().for_each_kernel_or_reference<CutRows>(spec, [&](const OpKernel<CutRows>& kernel) {
    Arena arena(harness().place_of(kernel));
    const CutRows::Args args{.x = arena.in_out(std::vector<float>(48, 0.5f)), .rows = 2, .stride = 24};
    arena.run([&](ExecutionContext& context) { kernel.run(spec, args, context); });
    EXPECT_TRUE(same_bits(arena.read(args.x, 48), std::vector<float>(48, 0.0f)));
  });
}

TEST(CutRowsConformance, RowsOfRealModels) { expect_cut({16384, 1.6448536f}, 9, 32768); }

}  // namespace
}  // namespace rocmforge::test::streams_test
