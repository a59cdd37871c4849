#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "models/model_file.h"
#include "models/runner.h"
#include "tensor/quant/dequantize.h"
#include "tensor/quant/formats.h"
#include "tensor/random_rows.h"

// Models whose matrices have formats of 64 and 256 elements a block: a golden model made wider, with random weights.
namespace rocmforge::testing {
namespace {

constexpr std::int64_t hidden = 256;
constexpr std::int64_t kv_dim = 64;
constexpr std::int64_t feed_forward = 512;
constexpr std::int64_t vocab = 112;
const std::vector<std::int32_t> tokens = {1, 100, 7, 33, 64, 2, 18, 90, 5, 41, 77};

Shape shape_of(std::string_view name, const Shape& narrow) {
  if (narrow.rank() == 1) {
    return {hidden};
  }
  if (name.ends_with("ffn_down.weight")) {
    return {hidden, feed_forward};
  }
  const std::int64_t rows = name.find("ffn_") != name.npos                                        ? feed_forward
                            : name.ends_with("attn_k.weight") || name.ends_with("attn_v.weight")  ? kv_dim
                            : name.starts_with("token_embd") || name.starts_with("output.weight") ? vocab
                                                                                                  : hidden;
  return {rows, hidden};
}

std::vector<float> values_of(const ModelFile::Weight& weight) {
  std::vector<float> values(static_cast<std::size_t>(weight.shape.elems()));
  dequantize_row(weight.dtype, weight.data.data(), values.data(), weight.shape.elems());
  return values;
}

/// What makes the weights of a deviation that layers of real models have.
float wanted_factor(const ModelFile::Weight& weight) {
  double squares = 0.0;
  for (const float value : values_of(weight)) {
    squares += double{value} * double{value};
  }
  return static_cast<float>(0.05 / std::sqrt(squares / static_cast<double>(weight.shape.elems())));
}

/// Multiplies the scale of every block, as far as f16 holds it.
void multiply_scales(ModelFile::Weight& weight, float factor) {
  Formats::visit(weight.dtype, [&]<class Block>(Block*) {
    if constexpr (Block::elems > 1 && has_block_scale<Block>) {
      for (std::size_t at = 0; at < weight.data.size(); at += sizeof(Block)) {
        Block block;
        std::memcpy(&block, weight.data.data() + at, sizeof block);
        set_block_scale(block, half(static_cast<float>(block_scale(block)) * factor));
        std::memcpy(weight.data.data() + at, &block, sizeof block);
      }
    }
  });
}

/// The matrices take the formats in turn. NVFP4's get a scale of the whole tensor.
ModelFile random_model(const std::vector<DType>& formats) {
  ModelFile model = ModelFile::golden("llama-mqa");
  model.set("llama.embedding_length", std::uint64_t{hidden});
  model.set("llama.feed_forward_length", std::uint64_t{feed_forward});
  model.set("llama.rope.dimension_count", std::uint64_t{hidden / 4});
  Random random(3);
  std::size_t next = 0;
  std::vector<ModelFile::Weight> scales;
  for (ModelFile::Weight& weight : model.weights) {
    weight.shape = shape_of(weight.name, weight.shape);
    if (weight.shape.rank() == 1) {
      weight.data.resize(hidden * sizeof(float));
      const std::vector<float> ones = random.uniforms(hidden, 0.8f, 1.2f);
      std::memcpy(weight.data.data(), ones.data(), weight.data.size());
      continue;
    }
    weight.dtype = formats[next++ % formats.size()];
    if (weight.dtype == DType::nvfp4 && weight.name == "token_embd.weight") {
      weight.dtype = formats[next++ % formats.size()];
    }
    weight.data = random_rows(weight.dtype, weight.shape.rows(), weight.shape.cols(), random);
    const float factor = wanted_factor(weight);
    multiply_scales(weight, factor);
    if (weight.dtype == DType::nvfp4) {
      const std::string layer = weight.name.substr(0, weight.name.rfind('.'));
      scales.push_back({layer + ".scale", {1}, DType::f32, std::vector<std::byte>(sizeof factor)});
      *scales.back().floats() = factor;
    }
  }
  model.weights.insert(model.weights.end(), scales.begin(), scales.end());
  return model;
}

/// The same numbers in F32.
ModelFile plain_copy(const ModelFile& model) {
  ModelFile plain = model;
  std::erase_if(plain.weights, [](const ModelFile::Weight& weight) { return weight.name.ends_with(".scale"); });
  for (ModelFile::Weight& weight : plain.weights) {
    std::vector<float> values = values_of(weight);
    const std::string scale_name = weight.name.substr(0, weight.name.rfind('.')) + ".scale";
    for (const ModelFile::Weight& other : model.weights) {
      if (other.name == scale_name) {
        float scale = 0.0f;
        std::memcpy(&scale, other.data.data(), sizeof scale);
        for (float& value : values) {
          value *= scale;
        }
      }
    }
    weight.dtype = DType::f32;
    weight.data.resize(values.size() * sizeof(float));
    std::memcpy(weight.data.data(), values.data(), weight.data.size());
  }
  return plain;
}

void expect_the_plain_model(const ModelFile& model) {
  const OpenModel open_model(model);
  const OpenModel open_plain(plain_copy(model));
  const std::vector<float> expected = Runner(open_plain.file, "reference").whole(tokens);
  for (const std::string& set : kernel_sets()) {
    if (const std::string problem = missing(set); !problem.empty()) {
      GTEST_SKIP() << problem;
    }
    // The scalar reference multiplies by the dequantised weight; kernels may round activations to 8 bits.
    EXPECT_LE(relative_error(Runner(open_model.file, set).whole(tokens), expected), set == "reference" ? 1e-5 : 3e-2) << set;
  }
}

TEST(WeightFormats, OneModelOfTheFormatsOfFewBits) {
  expect_the_plain_model(
      random_model({DType::iq2_s, DType::iq3_s, DType::iq3_xxs, DType::iq1_m, DType::iq2_xs, DType::iq2_xxs, DType::iq1_s,
                    DType::tq1_0, DType::tq2_0, DType::nvfp4, DType::iq4_xs}));
}

TEST(WeightFormats, NvFp4WithAScaleForEveryMatrix) { expect_the_plain_model(random_model({DType::nvfp4, DType::q6_k})); }

std::string refusal(const ModelFile& model) {
  const OpenModel open(model);
  try {
    Runner runner(open.file, "reference");
  } catch (const Error& error) {
    return error.what();
  }
  return {};
}

TEST(WeightFormats, ScalesThatCantBeAppliedAreRefused) {
  const ModelFile model = random_model({DType::nvfp4, DType::q6_k});
  ASSERT_EQ(refusal(model), "");
  const auto scale_of = [](ModelFile& of) -> ModelFile::Weight& {
    return *std::ranges::find_if(of.weights, [](const auto& weight) { return weight.name.ends_with(".scale"); });
  };
  ModelFile infinite = model;
  *scale_of(infinite).floats() = std::numeric_limits<float>::infinity();
  EXPECT_THAT(refusal(infinite), ::testing::HasSubstr("is inf, the scale of a weight must be a finite number"));
  ModelFile two = model;
  scale_of(two).shape = {2};
  scale_of(two).data.resize(8);
  EXPECT_THAT(refusal(two), ::testing::HasSubstr(scale_of(two).name));
  ModelFile wrong_type = model;
  scale_of(wrong_type).dtype = DType::f16;
  scale_of(wrong_type).data.resize(2);
  EXPECT_THAT(refusal(wrong_type), ::testing::HasSubstr("is F16, the scale of a weight must be F32"));
  ModelFile of_two = random_model({DType::q6_k});  // an embedding that is the head as well, where a scale would do
  of_two.remove_weight("output.weight");
  of_two.weight("token_embd.weight").dtype = DType::nvfp4;
  of_two.weight("token_embd.weight").data.resize(row_bytes(DType::nvfp4, vocab * hidden));
  ASSERT_EQ(refusal(of_two), "");
  of_two.add_vector("token_embd.scale", {2.0f});
  EXPECT_THAT(refusal(of_two), ::testing::HasSubstr("'token_embd.scale' scales 'token_embd.weight'"));
  ModelFile of_embedding = model;
  of_embedding.add_vector("token_embd.scale", {2.0f});
  EXPECT_THAT(refusal(of_embedding), ::testing::HasSubstr("'token_embd.scale' scales 'token_embd.weight'"));
}

}  // namespace
}  // namespace rocmforge::testing
