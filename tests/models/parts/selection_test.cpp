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
#include "models/plan/planner.h"
#include "models/runner.h"
#include "models/step/thread_communicator.h"

// Weights of which a layer has selected rows or columns. Each rank of several is planned and computed by itself; the tests
// put their outputs together.
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
  OneRank(const GgufFile& file, std::int32_t rank)
      : communicator_(ranks_, rank),
        plan_{WeightTable(file), BufferPlan(tokens, 1)},
        planner_(plan_, kernels(), device_.info(), 1, options()) {
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
  ModelOptions options() {
    ModelOptions options;
    options.communicator = &communicator_;
    options.max_batch_tokens = tokens;
    return options;
  }

  ThreadRanks ranks_{2};
  ThreadCommunicator communicator_;
  Device device_;
  ThreadPool pool_{1};
  ExecutionContext context_{&pool_};
  ModelPlan plan_;
  Planner planner_;
  DeviceBuffer workspace_;
};

/// The product with as many of the columns as `layer` has.
std::vector<float> product(const GgufFile& file, const LinearName& layer, const std::vector<float>& x,
                           std::int32_t rank = 0) {
  OneRank planned(file, rank);
  const std::int64_t k = layer.columns.whole() ? width : layer.columns.count();
  const Linear linear = planned.planner().linear(layer.name, {layer}, k);
  const Step step = planned.load();
  std::vector<float> out(static_cast<std::size_t>(tokens * linear.width()));
  linear.run(step, x.data(), out.data());
  return out;
}

class Selections : public ::testing::TestWithParam<DType> {
 protected:
  Selections() : file_(in_format(GetParam())) {}
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

TEST_P(Selections, OutputsOfRowsLieSideBySide) {
  const std::vector<float> whole = product(file_.file, layer_, x_);
  for (const std::int32_t ranks : {2, 4}) {
    for (std::int32_t rank = 0; rank < ranks; ++rank) {
      LinearName part = layer_;
      part.n = width / ranks;
      part.rows = Selection::run({width / ranks * rank, width / ranks}, width);
      EXPECT_EQ(product(file_.file, part, x_), part_of_rows(whole, rank, ranks)) << rank << " of " << ranks;
    }
  }
}

TEST_P(Selections, RowsOfStackedPartsKeepTheirBiases) {
  const std::vector<float> whole = product(file_.file, layer_, x_);
  LinearName layer = layer_;
  layer.n = 24;
  layer.rows = stacked(std::vector<StackedPart>{{Selection::run({8, 8}, 32), 32}, {{}, 16}, {Selection{16, {}}, 16}});
  const std::vector<float> part = product(file_.file, layer, x_);
  for (std::int64_t token = 0; token < tokens; ++token) {
    const std::span row(part.data() + token * 24, 24);
    const float* all = whole.data() + token * width;
    EXPECT_TRUE(std::ranges::equal(row.first(8), std::span(all + 8, 8)));
    EXPECT_TRUE(std::ranges::equal(row.last(16), std::span(all + 32, 16)));
  }
}

/// Four groups of 12 rows and 4: a rank has two groups, whose parts lie together.
TEST_P(Selections, GroupsOfRowsAreParted) {
  LinearName layer = layer_;
  layer.needs_bias = false;
  layer.name = "blk.0.attn_output";
  const std::int64_t parts[] = {12, 4};
  const std::vector<float> file_order = product(file_.file, layer, x_);
  layer.n = 32;
  for (std::int32_t rank = 0; rank < 2; ++rank) {
    layer.rows = Selection::grouped(4, {2 * rank, 2}, parts);
    const std::vector<float> part = product(file_.file, layer, x_);
    for (std::int64_t token = 0; token < tokens; ++token) {
      const float* all = file_order.data() + token * width + rank * 32;
      const float* own = part.data() + token * 32;
      for (std::int64_t group = 0; group < 2; ++group) {
        EXPECT_TRUE(std::equal(own + group * 12, own + group * 12 + 12, all + group * 16));
        EXPECT_TRUE(std::equal(own + 24 + group * 4, own + 24 + group * 4 + 4, all + group * 16 + 12));
      }
    }
  }
}

TEST_P(Selections, OutputsOfColumnsAreSummedWithOneBias) {
  const std::vector<float> whole = product(file_.file, layer_, x_);
  std::vector<float> sum(whole.size());
  for (std::int32_t rank = 0; rank < 2; ++rank) {
    LinearName layer = layer_;
    layer.columns = Selection::run({32 * rank, 32}, width);
    layer.summed = true;
    const std::vector<float> part = product(file_.file, layer, part_of_rows(x_, rank, 2), rank);
    std::ranges::transform(sum, part, sum.begin(), std::plus<>());
  }
  EXPECT_LE(relative_error(sum, whole), 1e-5);
}

INSTANTIATE_TEST_SUITE_P(Formats, Selections, ::testing::Values(DType::f32, DType::q8_0),
                         [](const auto& instance) { return std::string(name(instance.param)); });

TEST(SelectionErrors, ABlockOfColumnsIsNotParted) {
  ModelFile model = ModelFile::golden("qwen2");
  model.convert("blk.0.attn_q.weight", DType::q8_0);
  const OpenModel open(model);
  const LinearName layer{.name = "blk.0.attn_q", .n = width, .columns = Selection::run({16, 16}, width)};
  EXPECT_THAT(error_text([&] { product(open.file, layer, {}); }),
              ::testing::HasSubstr("whose blocks of 32 columns can't be parted behind column 16"));
}

}  // namespace
}  // namespace rocmforge::testing
