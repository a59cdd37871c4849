#include <gtest/gtest.h>

#include <cstring>

#include "models/model_file.h"
#include "models/runner.h"

namespace rocmforge::testing {
namespace {

/// Rows of a model's embedding as a step computes them, with a stride, in the memory of the device.
class Given {
 public:
  Given(Runner& runner, ModelFile& file, const std::vector<std::int32_t>& tokens) {
    const std::int64_t hidden = runner.model().config().hidden;
    stride_ = hidden + 8;
    std::vector<float> rows(tokens.size() * static_cast<std::size_t>(stride_), 1e30f);
    const float* table = file.weight("token_embd.weight").floats();
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      for (std::int64_t e = 0; e < hidden; ++e) {
        rows[i * static_cast<std::size_t>(stride_) + static_cast<std::size_t>(e)] =
            table[tokens[i] * hidden + e] * runner.model().config().embedding_scale;
      }
    }
    memory_ = runner.device().allocate(rows.size() * sizeof(float), "given rows");
    if (runner.device().is_gpu()) {
      runner.device().upload(memory_.data(), rows.data(), rows.size() * sizeof(float));
    } else {
      std::memcpy(memory_.data(), rows.data(), rows.size() * sizeof(float));
    }
    count_ = static_cast<std::int64_t>(tokens.size());
  }
  [[nodiscard]] GivenRows rows() const { return {memory_.as<float>(), stride_, count_}; }

 private:
  DeviceBuffer memory_;
  std::int64_t stride_ = 0;
  std::int64_t count_ = 0;
};

ModelOptions options_with_rows() {
  ModelOptions options = f32_options();
  options.given_rows = true;
  return options;
}

/// Rows that are given in place of embeddings give what the tokens with these embeddings give.
TEST(ModelGivenRows, ReplaceEmbeddings) {
  const Golden golden = read_golden("gemma3");  // whose embeddings are scaled
  ModelFile model = ModelFile::golden("gemma3").in_f32();
  const OpenModel open(model);
  for (const std::string& set : kernel_sets()) {
    if (const std::string problem = missing(set, open.file); !problem.empty()) {
      GTEST_SKIP() << problem;
    }
    Runner runner(open.file, set, options_with_rows());
    const std::vector<float> expected = runner.whole(golden.tokens);
    const Given given(runner, model, golden.tokens);
    BatchPlan plan;
    plan.clear();
    std::vector<std::int32_t> tokens = golden.tokens;
    for (const std::int32_t row : {3, 4, 5, 11}) {
      tokens[static_cast<std::size_t>(row)] = 0;
      plan.overwritten_rows.push_back(row);
      plan.given_rows.push_back(row);
    }
    plan.given = given.rows();
    EXPECT_GT(relative_error(runner.whole(tokens), expected), 0.01) << "the tokens alone are others";
    expect_same_logits(runner.step({{.tokens = tokens, .blocks = {17, 3, 9}}}, plan), expected, set);
  }
}

TEST(ModelGivenRows, WrongOnesAreRefused) {
  ModelFile model = ModelFile::golden("qwen3").in_f32();
  const OpenModel open(model);
  Runner runner(open.file, kernel_sets().front(), options_with_rows());
  const Given given(runner, model, {1, 2});
  const auto run = [&](Runner& with, std::vector<std::int32_t> rows, std::vector<std::int32_t> from, GivenRows of) {
    BatchPlan plan;
    plan.clear();
    plan.overwritten_rows = std::move(rows);
    plan.given_rows = std::move(from);
    plan.given = of;
    with.step({{.tokens = {5, 6, 7}, .blocks = {0}}}, plan);
  };
  EXPECT_NO_THROW(run(runner, {0, 2}, {1, 1}, given.rows()));
  EXPECT_THROW(run(runner, {0, 3}, {1, 1}, given.rows()), LogicError) << "outside the step";
  EXPECT_THROW(run(runner, {1, 1}, {1, 1}, given.rows()), LogicError) << "a row twice";
  EXPECT_THROW(run(runner, {0, 2}, {1, 2}, given.rows()), LogicError) << "not given";
  EXPECT_THROW(run(runner, {0, 2}, {1}, given.rows()), LogicError);
  GivenRows narrow = given.rows();
  narrow.stride = 1;
  EXPECT_THROW(run(runner, {0}, {1}, narrow), LogicError);
  Runner plain(open.file, kernel_sets().front());
  EXPECT_THROW(run(plain, {0}, {1}, given.rows()), LogicError) << "not loaded for them";
}

}  // namespace
}  // namespace rocmforge::testing
