// The choice of experts and of tokens at the sizes of real work, on a real GPU: every id and every weight is compared with
// the plain kernels' (check). Outputs and workspaces are poisoned, and each call runs in all situations.

#include <cmath>
#include <map>

#include "checks/model_shapes.h"
#include "checks/route_logits.h"
#include "conformance/at_size.h"

namespace rocmforge::test {
namespace {

// ---- experts

std::vector<Output> choices(const RouteTokens::Spec& spec, std::int64_t tokens) {
  std::vector<Output> outputs;
  outputs.emplace_back(DType::i32, tokens, spec.taken());
  outputs.emplace_back(DType::f32, tokens, spec.taken());
  return outputs;
}

TEST(HugeRouting, ChosenExpertsAreRight) {
  std::int64_t elements = 0;
  for (const ModelRouter& router : routers_of_models()) {
    SCOPED_TRACE(router.model);
    const RouteTokens::Spec& spec = router.spec.route;
    for (const std::int64_t tokens : {1, 2, 3, 8, 17, 32, 64, 129, 256, 2048, 16384}) {
      SCOPED_TRACE(testing::Message() << tokens << " tokens");
      Random random(31);
      const std::vector<float> biases = random.normals(spec.experts, 0.2f);
      const DeviceBuffer logits = uploaded(separate_logits(spec, spec.bias ? biases : std::vector<float>(), tokens, random));
      const DeviceBuffer bias = uploaded(biases);
      elements += compare_with_plain<RouteTokens>(
          spec, [&] { return choices(spec, tokens); },
          [&](const OpKernel<RouteTokens>& kernel, const std::vector<Output>& outputs) {
            const RouteTokens::Args args{.logits = logits.as<float>(),
                                         .tokens = tokens,
                                         .bias = bias.as<float>(),
                                         .ids = outputs[0].memory.as<std::int32_t>(),
                                         .weights = outputs[1].memory.as<float>()};
            return [&kernel, &spec, args] { kernel.run(spec, args, harness().target.context); };
          },
          [&](const auto& actual, const auto& expected, auto kernel) {
            expect_equal(actual[0], expected[0], kernel);
            expect_rows(actual[1], expected[1], tolerance(DType::f32), kernel);
            return 2 * tokens * spec.taken();
          });
    }
  }
  print_elements("route_tokens", elements);
}

/// Memory of one kernel's calls.
struct RouteMemory {
  DeviceBuffer workspace;
  DeviceBuffer state;
};

/// With so few tokens no two scores are so close that rounding changes their order.
std::int64_t compare_router(const RouteRows::Spec& spec, std::int64_t tokens) {
  SCOPED_TRACE(testing::Message() << tokens << " tokens");
  const RouteTokens::Spec& route = spec.route;
  Random random(32);
  const float deviation = 2.0f / std::sqrt(static_cast<float>(spec.hidden));
  const DeviceBuffer x = random_floats(tokens * spec.hidden, 33, 3.0f);
  const DeviceBuffer norm = random_floats(spec.hidden, 34);
  const DeviceBuffer router = random_floats(route.experts * spec.hidden, 35, deviation);
  const DeviceBuffer gates = random_floats(std::max(route.shared, 1) * spec.hidden, 36, deviation);
  const DeviceBuffer bias = uploaded(random.normals(route.experts, 0.2f));
  std::map<const RouteRowsKernel*, RouteMemory> memory;
  const auto make = [&] {
    std::vector<Output> outputs = choices(route, tokens);
    outputs.emplace_back(DType::f32, tokens, spec.hidden);
    return outputs;
  };
  const auto call = [&](const RouteRowsKernel& kernel, const std::vector<Output>& outputs) {
    RouteMemory own{
        poisoned_buffer(kernel.workspace_bytes(spec, tokens)),
        harness().target.device->allocate(std::max<std::size_t>(kernel.state_bytes(spec), 1), "a test's counters")};
    const RouteMemory& kept = memory.insert_or_assign(&kernel, std::move(own)).first->second;
    const RouteRows::Args args{.x = x.as<float>(),
                               .norm = norm.as<float>(),
                               .router = router.as<float>(),
                               .shared_gates = gates.as<float>(),
                               .tokens = tokens,
                               .bias = bias.as<float>(),
                               .normed = outputs[2].memory.as<float>(),
                               .ids = outputs[0].memory.as<std::int32_t>(),
                               .weights = outputs[1].memory.as<float>(),
                               .workspace = kept.workspace.data(),
                               .state = kept.state.data()};
    return [&kernel, &spec, args] { kernel.run(spec, args, harness().target.context); };
  };
  return compare_with_plain<RouteRows>(spec, make, call, [&](const auto& actual, const auto& expected, auto kernel) {
    expect_equal(actual[0], expected[0], kernel);
    expect_rows(actual[1], expected[1], 1e-4, kernel);
    expect_rows(actual[2], expected[2], tolerance(DType::f32), kernel);
    return tokens * (spec.hidden + 2 * route.taken());
  });
}

TEST(HugeRouting, RoutersOfFewRowsAreRight) {
  std::int64_t elements = 0;
  for (const ModelRouter& router : routers_of_models()) {
    SCOPED_TRACE(router.model);
    const RouteRows::Spec& spec = router.spec;
    const Candidates<RouteRows> found = harness().registry.candidates<RouteRows>(spec, harness().device);
    if (found.able.empty()) {
      continue;
    }
    std::int64_t most = found.able.front()->most_tokens();
    for (const RouteRowsKernel* kernel : found.able) {
      most = std::min(most, kernel->most_tokens());
    }
    for (std::int64_t tokens = 1; tokens <= most; ++tokens) {
      elements += compare_router(spec, tokens);
    }
  }
  EXPECT_GT(elements, 0);
  print_elements("route_rows", elements);
}

// ---- tokens

/// Rows with every filter alone and several together, some with changed and some with forbidden logits.
class DrawsAtSize {
 public:
  DrawsAtSize(std::int64_t vocab, std::int64_t count) : spec_{vocab}, count_(count) {
    Random random(41);
    std::vector<SampleRow> rows;
    std::vector<SampleAdjustment> adjustments;
    for (std::int64_t r = 0; r < count; ++r) {
      rows.push_back(row_of(r, random));
      if (r % 3 == 1) {
        rows.back().first_adjustment = static_cast<std::int32_t>(adjustments.size());
        rows.back().num_adjustments = 50;
        rows.back().repeat_penalty = 1.1f;
        rows.back().presence_penalty = 0.5f;
        for (std::int32_t i = 0; i < 50; ++i) {
          adjustments.push_back({i * static_cast<std::int32_t>(vocab / 50), i % 4, i % 5 == 0 ? 4.0f : 0.0f});
        }
      }
      rows.back().mask = r % 4 == 3 ? 0 : -1;
    }
    std::vector<std::uint32_t> mask(static_cast<std::size_t>(sample_mask_words(vocab)));
    for (std::uint32_t& word : mask) {
      word = static_cast<std::uint32_t>(random.bits());
    }
    adjustments.push_back({});  // there is one
    rows_ = uploaded(rows);
    adjustments_ = uploaded(adjustments);
    masks_ = uploaded(mask);
    before_ = random_floats(count * vocab, 42, 3.0f);
    workspace_ = poisoned_buffer(sample_workspace_bytes(vocab) * static_cast<std::size_t>(count));
  }

  std::int64_t compare() {
    SCOPED_TRACE(testing::Message() << count_ << " rows");
    const auto make = [&] {
      std::vector<Output> outputs;
      outputs.emplace_back(DType::i32, count_, 1);
      outputs.emplace_back(DType::f32, count_ * spec_.vocab / part, part, &before_);
      return outputs;
    };
    const auto call = [&](const OpKernel<SampleTokens>& kernel, const std::vector<Output>& outputs) {
      const SampleTokens::Args args{.logits = outputs[1].memory.as<float>(),
                                    .num_rows = count_,
                                    .rows = rows_.as<SampleRow>(),
                                    .adjustments = adjustments_.as<SampleAdjustment>(),
                                    .masks = masks_.as<std::uint32_t>(),
                                    .out = outputs[0].memory.as<std::int32_t>(),
                                    .workspace = workspace_.data()};
      return [this, &kernel, args] { kernel.run(spec_, args, harness().target.context); };
    };
    return compare_with_plain<SampleTokens>(spec_, make, call, [&](const auto& actual, const auto& expected, auto kernel) {
      expect_equal(actual[0], expected[0], kernel);
      expect_rows(actual[1], expected[1], 0.0, kernel);
      return count_ * (1 + spec_.vocab);
    });
  }

 private:
  static constexpr std::int64_t part = 64;  ///< logits that are compared as a row

  static SampleRow row_of(std::int64_t r, Random& random) {
    SampleRow row;
    row.uniform = random.unit();
    row.temperature = r % 8 == 0 ? 0.0f : 0.5f + 0.1f * static_cast<float>(r % 9);
    row.top_k = r % 8 == 1 || r % 8 == 5 ? 40 + static_cast<std::int32_t>(r % 100) : 0;
    row.top_p = r % 8 == 2 || r % 8 == 5 ? 0.9f : 1.0f;
    row.min_p = r % 8 == 3 || r % 8 == 6 ? 0.05f : 0.0f;
    row.typical_p = r % 8 == 4 || r % 8 == 6 ? 0.8f : 1.0f;
    return row;
  }

  SampleTokens::Spec spec_;
  std::int64_t count_;
  DeviceBuffer rows_, adjustments_, masks_, before_, workspace_;
};

// The vocabularies of the models.
TEST(HugeSampling, DrawnTokensAreRight) {
  std::int64_t elements = 0;
  for (const std::int64_t vocab : {32000, 128256, 151936, 201088, 262144}) {
    for (const std::int64_t rows : {1, 3, 8, 32, 64, 256}) {
      elements += DrawsAtSize(vocab, rows).compare();
    }
  }
  print_elements("sample", elements);
}

}  // namespace
}  // namespace rocmforge::test
