#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "models/model_file.h"
#include "models/runner.h"
#include "tensor/dtype.h"

// Models with norms after their parts, in formats whose kernels fuse these norms into the next product on some devices.
// Steps of any number of tokens must agree with the reference, whichever buffer the residual stream is in.
namespace rocmforge::testing {
namespace {

/// The golden model `name` with its matrices in `type`, if their rows are whole blocks.
ModelFile in_format(const std::string& name, DType type) {
  ModelFile model = ModelFile::golden(name);
  std::vector<std::string> names;
  for (const ModelFile::Weight& weight : model.weights) {
    if (weight.shape.rank() == 2 && weight.shape.cols() % info(type).block_elems == 0) {
      names.push_back(weight.name);
    }
  }
  EXPECT_FALSE(names.empty());
  for (const std::string& matrix : names) {
    model.convert(matrix, type);
  }
  return model;
}

std::vector<float> in_chunks(Runner& runner, const std::vector<std::int32_t>& tokens, std::int32_t chunk) {
  const auto length = static_cast<std::int32_t>(tokens.size());
  std::vector<float> logits;
  for (std::int32_t first = 0; first < length; first += chunk) {
    const std::int32_t count = std::min(chunk, length - first);
    const std::vector<float> rows =
        runner.step({{{tokens.begin() + first, tokens.begin() + first + count}, first, {17, 3, 9}}});
    logits.insert(logits.end(), rows.begin(), rows.end());
  }
  return logits;
}

/// Kernels may round activations to 16 bits, with quants to 8. A missing or doubled sum changes the logits far more.
double allowed(const std::string& set, DType type) { return set == "reference" ? 1e-5 : type == DType::f16 ? 2e-2 : 0.1; }

class ResidualSums : public ::testing::TestWithParam<std::string> {};

TEST_P(ResidualSums, StepsOfAnyNumberOfTokensFollowTheReference) {
  const Golden golden = read_golden(GetParam());
  for (const DType type : {DType::f16, DType::q8_0}) {
    const OpenModel open(in_format(GetParam(), type));
    const std::vector<float> expected = Runner(open.file, "reference").whole(golden.tokens);
    for (const std::string& set : kernel_sets()) {
      if (const std::string problem = missing(set); !problem.empty()) {
        GTEST_SKIP() << problem;
      }
      Runner runner(open.file, set);
      for (const std::int32_t chunk : {1, 2, 3, 5, 8, 9}) {
        EXPECT_LE(relative_error(in_chunks(runner, golden.tokens, chunk), expected), allowed(set, type))
            << set << ", " << name(type) << ", chunks of " << chunk;
      }
      // After the last layer's attention only the wanted rows are computed.
      const auto last = static_cast<std::int32_t>(golden.tokens.size()) - 1;
      const std::vector<float> row(expected.end() - golden.vocab, expected.end());
      EXPECT_LE(relative_error(runner.rows(golden.tokens, {last}), row), allowed(set, type)) << set;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Models, ResidualSums,
                         ::testing::Values("gemma2", "gemma3", "gemma4", "gemma4-e", "gemma4-moe", "glm4", "olmo2",
                                           "exaone4"),
                         [](const auto& instance) {
                           std::string text = instance.param;
                           std::replace(text.begin(), text.end(), '-', '_');
                           return text;
                         });

}  // namespace
}  // namespace rocmforge::testing
