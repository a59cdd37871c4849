#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <random>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "kernels/register_all.h"
#include "models/error_text.h"
#include "models/model_file.h"
#include "models/parts/residual_output.h"
#include "models/plan/planner.h"
#include "models/runner.h"

// Weights that several ranks share. Each rank is planned and computed by itself; the tests put their outputs together.
namespace rocmforge::testing {
namespace {

constexpr std::int64_t tokens = 3;
constexpr std::int64_t width = 64;  ///< of all rows here

std::vector<float> random_rows(unsigned seed) {
  std::mt19937 generator(seed);
  std::uniform_real_distribution<float> number(-1.0f, 1.0f);
  std::vector<float> rows(tokens * width);
  std::ranges::generate(rows, [&] { return number(generator); });
  return rows;
}

/// The elements of each row that rank `rank` of `ranks` has.
std::vector<float> part_of_rows(const std::vector<float>& rows, std::int32_t rank, std::int32_t ranks) {
  std::vector<float> part;
  for (auto row = rows.begin(); row != rows.end(); row += width) {
    part.insert(part.end(), row + width / ranks * rank, row + width / ranks * (rank + 1));
  }
  return part;
}

const KernelRegistry& kernels() {
  static KernelRegistry all;
  static const bool registered = [] {
    register_all_kernels(all);
    return true;
  }();
  check(registered, "the kernels are registered once");
  return all;
}

/// A model of which single parts are planned, loaded and run.
class OneRank {
 public:
  explicit OneRank(const GgufFile& file)
      : plan_{WeightTable(file), BufferPlan(tokens, 1)}, planner_(plan_, kernels(), device_.info(), 1, options()) {
    for (const GgufTensor& tensor : file.tensors()) {
      plan_.weights.pass_over(tensor.name);
    }
    for (const BufferName name : {BufferName::hidden, BufferName::normed, BufferName::projected, BufferName::gathered}) {
      planner_.buffers().need(name, width);
    }
  }
  Planner& planner() { return planner_; }

  Step load() {
    plan_.weights.load(device_, pool_, {});
    workspace_ = device_.allocate(plan_.buffers.size_bytes(), "the workspace");
    Step step;
    step.tokens = tokens;
    step.buffers = plan_.buffers.place(workspace_.data());
    step.context = &context_;
    return step;
  }

 private:
  static ModelOptions options() {
    ModelOptions options;
    options.max_batch_tokens = tokens;
    return options;
  }

  Device device_;
  ThreadPool pool_{1};
  ExecutionContext context_{&pool_};
  ModelPlan plan_;
  Planner planner_;
  DeviceBuffer workspace_;
};

std::vector<float> product(const GgufFile& file, const LinearName& layer, const std::vector<float>& x) {
  OneRank rank(file);
  const Linear linear = rank.planner().linear(layer.name, {layer}, width);
  const Step step = rank.load();
  std::vector<float> out(static_cast<std::size_t>(tokens * linear.width()));
  linear.run(step, x.data(), out.data());
  return out;
}

LinearName shared(LinearName layer, Shard::Axis axis, std::int32_t rank, std::int32_t ranks) {
  layer.shard = {axis, rank, ranks};
  return layer;
}

class Shards : public ::testing::TestWithParam<DType> {
 protected:
  Shards() : file_(in_format(GetParam())) {}
  static ModelFile in_format(DType type) {
    ModelFile model = ModelFile::golden("qwen2");
    for (const char* weight : {"blk.0.attn_q.weight", "blk.0.attn_output.weight"}) {
      if (type != DType::f32) {
        model.convert(weight, type);
      }
    }
    return model;
  }

  OpenModel file_;
  const LinearName layer_{.name = "blk.0.attn_q", .n = width, .needs_bias = true};
  const std::vector<float> x_ = random_rows(1);
};

TEST_P(Shards, OutputsOfRowsLieSideBySide) {
  const std::vector<float> whole = product(file_.file, layer_, x_);
  for (const std::int32_t ranks : {1, 2, 4}) {
    for (std::int32_t rank = 0; rank < ranks; ++rank) {
      EXPECT_EQ(product(file_.file, shared(layer_, Shard::Axis::rows, rank, ranks), x_), part_of_rows(whole, rank, ranks))
          << rank << " of " << ranks;
    }
  }
}

TEST_P(Shards, ARankHasWholeGroupsOfRows) {
  LinearName layer = layer_;
  layer.groups = {.groups = 4, .parts = {12, 4}};
  layer.needs_bias = false;
  layer.name = "blk.0.attn_output";
  const std::vector<float> whole = product(file_.file, layer, x_);
  for (std::int32_t rank = 0; rank < 2; ++rank) {
    const std::vector<float> part = product(file_.file, shared(layer, Shard::Axis::rows, rank, 2), x_);
    for (std::int64_t token = 0; token < tokens; ++token) {
      const std::span row(part.data() + token * 32, 32);
      const float* all = whole.data() + token * width;
      EXPECT_TRUE(std::ranges::equal(row.first(24), std::span(all + rank * 24, 24)));
      EXPECT_TRUE(std::ranges::equal(row.last(8), std::span(all + 48 + rank * 8, 8)));
    }
  }
}

TEST_P(Shards, OutputsOfColumnsAreSummedWithOneBias) {
  const std::vector<float> whole = product(file_.file, layer_, x_);
  std::vector<float> sum(whole.size());
  for (std::int32_t rank = 0; rank < 2; ++rank) {
    const std::vector<float> part =
        product(file_.file, shared(layer_, Shard::Axis::columns, rank, 2), part_of_rows(x_, rank, 2));
    std::ranges::transform(sum, part, sum.begin(), std::plus<>());
  }
  EXPECT_LE(relative_error(sum, whole), 1e-5);
}

INSTANTIATE_TEST_SUITE_P(Formats, Shards, ::testing::Values(DType::f32, DType::q8_0),
                         [](const auto& instance) { return std::string(name(instance.param)); });

TEST(ShardErrors, AWeightThatRanksCannotShareIsNamed) {
  const OpenModel open(ModelFile::golden("qwen2"));
  const LinearName layer{.name = "blk.0.attn_q", .n = width};
  const auto message = [&](const LinearName& of_rank) { return error_text([&] { product(open.file, of_rank, {}); }); };
  EXPECT_THAT(message(shared(layer, Shard::Axis::rows, 0, 3)),
              ::testing::HasSubstr("tensor 'blk.0.attn_q.weight': 64 rows can't be shared by 3 ranks"));
  EXPECT_THAT(message(shared(layer, Shard::Axis::columns, 0, 3)),
              ::testing::HasSubstr("64 columns can't be shared by 3 ranks"));
}

TEST(ShardErrors, ABlockOfColumnsIsNotParted) {
  ModelFile model = ModelFile::golden("qwen2");
  model.convert("blk.0.attn_q.weight", DType::q8_0);
  const OpenModel open(model);
  const LinearName layer{.name = "blk.0.attn_q", .n = width, .shard = {Shard::Axis::columns, 1, 4}};
  EXPECT_THAT(error_text([&] { product(open.file, layer, {}); }),
              ::testing::HasSubstr("whose blocks of 32 columns can't be parted behind column 16"));
}

/// ResidualOutput of layer 0's attention on one rank.
struct Output {
  Output(const GgufFile& file, const std::string& norm, const Shard& shard)
      : rank(file),
        config(ModelConfig::from_gguf(file, 0)),
        output(rank.planner(), config, 0, {.linear = "attn_output", .k = width, .norm = norm, .shard = shard}) {
    output.append(operations);
  }

  OneRank rank;
  ModelConfig config;
  ResidualOutput output;
  Operations operations;
};

/// The residual stream after the output of `x` is added to `stream`, computed by so many ranks.
std::vector<float> stream_after(const GgufFile& file, const std::string& norm, std::int32_t ranks) {
  const std::vector<float> stream = random_rows(2);
  const std::vector<float> x = random_rows(3);
  std::vector<float> sum(tokens * width);
  for (std::int32_t rank = ranks - 1; rank >= 0; --rank) {
    Output part(file, norm, {Shard::Axis::columns, rank, ranks});
    const Step step = part.rank.load();
    std::ranges::copy(part_of_rows(x, rank, ranks), step.buffers.gathered);
    std::ranges::copy(stream, step.buffers.hidden);
    part.operations.front().run(step);
    const std::span projected(step.buffers.projected, sum.size());
    std::ranges::transform(sum, projected, sum.begin(), std::plus<>());
    if (rank == 0) {
      if (ranks > 1) {
        std::ranges::copy(sum, projected.begin());
      }
      std::ranges::for_each(std::span(part.operations).subspan(1), [&](const Operation& operation) { operation.run(step); });
      return {step.buffers.hidden, step.buffers.hidden + tokens * width};
    }
  }
  return {};
}

TEST(ShardedResidualOutput, RanksGiveTheSumOfOne) {
  for (const auto& [model, norm] : {std::pair("qwen2", ""), std::pair("gemma2", "post_attention_norm")}) {
    const OpenModel open(ModelFile::golden(model));
    EXPECT_LE(relative_error(stream_after(open.file, norm, 2), stream_after(open.file, norm, 1)), 1e-5) << model;
  }
}

TEST(ShardedResidualOutput, NothingIsAddedBeforeTheRanksAreSummed) {
  const OpenModel plain(ModelFile::golden("qwen2"));
  EXPECT_EQ(Output(plain.file, "", {}).operations.size(), 1u);
  EXPECT_EQ(Output(plain.file, "", {Shard::Axis::columns, 0, 2}).operations.size(), 2u);
  const OpenModel normed(ModelFile::golden("gemma2"));
  EXPECT_NE(Output(normed.file, "post_attention_norm", {}).output.sum(), nullptr);
  EXPECT_EQ(Output(normed.file, "post_attention_norm", {Shard::Axis::columns, 0, 2}).output.sum(), nullptr);
}

}  // namespace
}  // namespace rocmforge::testing
