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
#include "kernels/launch/amd/architectures.h"
#include "models/model_file.h"
#include "models/runner.h"
#include "tensor/quant/dequantize.h"
#include "tensor/quant/formats.h"
#include "tensor/random_rows.h"

// Models whose matrices have formats of 64 and 256 elements a block: a golden model made wider, with random weights.
namespace rocmforge::testing::weight_formats_test {
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

/// The factor that gives weights the standard deviation of real models' layers.
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

/// Fills a matrix with random blocks of its format. Returns the factor by which their scales were multiplied.
float fill(ModelFile::Weight& weight, Random& random) {
  weight.data = random_rows(weight.dtype, weight.shape.rows(), weight.shape.cols(), random);
  const float factor = wanted_factor(weight);
  multiply_scales(weight, factor);
  return factor;
}

void fill(ModelFile::Weight& weight, const std::vector<float>& values) {
  weight.data.resize(values.size() * sizeof(float));
  std::memcpy(weight.data.data(), values.data(), weight.data.size());
}

/// The matrices take the formats in turn. NVFP4's get a scale of the whole tensor.
ModelFile random_model(const std::vector<DType>& formats) {
  ModelFile model = ModelFile::golden("llama-mqa");
  model.set("llama.embedding_length", std::uint64_t{hidden});
  model.set("llama.feed_forward_length", std::uint64_t{feed_forward});
  for (const char* key : {"rope.dimension_count", "attention.key_length", "attention.value_length"}) {
    model.set(std::string("llama.") + key, std::uint64_t{hidden / 4});
  }
  Random random(3);
  std::size_t next = 0;
  std::vector<ModelFile::Weight> scales;
  for (ModelFile::Weight& weight : model.weights) {
    weight.shape = shape_of(weight.name, weight.shape);
    if (weight.shape.rank() == 1) {
      fill(weight, random.uniforms(hidden, 0.8f, 1.2f));
      continue;
    }
    weight.dtype = formats[next++ % formats.size()];
    if (weight.dtype == DType::nvfp4 && weight.name == "token_embd.weight") {
      weight.dtype = formats[next++ % formats.size()];
    }
    const float factor = fill(weight, random);
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
    fill(weight, values);
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

/// Six experts, of which a token takes three, and a shared one with a gate. Each layer has formats of its own.
ModelFile random_experts() {
  ModelFile model = ModelFile::golden("qwen2moe-equal");
  constexpr std::int64_t width = 256;
  for (const char* key :
       {"embedding_length", "feed_forward_length", "expert_feed_forward_length", "expert_shared_feed_forward_length"}) {
    model.set(std::string("qwen2moe.") + key, std::uint64_t{width});
  }
  Random random(5);
  for (ModelFile::Weight& weight : model.weights) {
    const auto wide = [&](int i) {  // hidden and an expert's width, keys of all heads
      const std::int64_t narrow = weight.shape[i];
      return narrow == 32 || narrow == 24 ? width : narrow == 16 ? width / 2 : narrow;
    };
    weight.shape = weight.shape.rank() == 1   ? Shape{wide(0)}
                   : weight.shape.rank() == 2 ? Shape{wide(0), wide(1)}
                                              : Shape{wide(0), wide(1), wide(2)};
    const bool first = weight.name.starts_with("blk.0.");
    if (weight.name.ends_with("bias")) {
      fill(weight, random.normals(weight.shape.elems(), 0.1f));
    } else if (weight.name.find("ffn_gate_inp") != std::string::npos) {
      fill(weight, random.normals(weight.shape.elems(), 0.2f));
    } else if (weight.shape.rank() == 1) {
      fill(weight, random.uniforms(weight.shape.elems(), 0.8f, 1.2f));
    } else {
      const bool down = weight.name.find("ffn_down") != std::string::npos;
      weight.dtype = first ? (down ? DType::q6_k : DType::q4_k) : down ? DType::q4_0 : DType::q8_0;
      fill(weight, random);
    }
  }
  return model;
}

/// Checks that an AMD card with kernels of its own for these formats uses no other kernels.
void expect_own_kernels(const Model& model, const DeviceInfo& device) {
  if (device.kind != DeviceKind::hip || !amd::check_architecture(device).ok) {
    return;
  }
  std::vector<std::string> seen;
  for (const PlannedOperation& planned : model.plan()) {
    if (operation_kind(planned.operation) == "ffn_gate_inp") {
      const std::string router = device.wave_size == 32 ? "amd route_rows + " : "gpu route_rows + ";
      EXPECT_TRUE(planned.kernel.starts_with(router)) << planned.kernel;
    } else if (planned.weight_bytes > 0 && planned.operation.starts_with("blk.")) {
      seen.emplace_back(operation_kind(planned.operation));
      EXPECT_EQ(planned.kernel, "amd") << planned.operation;
    }
  }
  EXPECT_THAT(seen, ::testing::IsSupersetOf({"ffn_up_exps", "ffn_down_exps", "attn_output"}));
}

/// A prompt in one step, and the same in a step of few tokens and steps of single ones.
TEST(WeightFormats, QuantisedExpertsInPromptsAndDecodeSteps) {
  const ModelFile model = random_experts();
  const OpenModel open_model(model);
  const OpenModel open_plain(plain_copy(model));
  const std::vector<float> expected = Runner(open_plain.file, "reference").whole(tokens);
  for (const std::string& set : kernel_sets()) {
    if (const std::string problem = missing(set); !problem.empty()) {
      GTEST_SKIP() << problem;
    }
    Runner runner(open_model.file, set);
    expect_own_kernels(runner.model(), runner.device().info());
    const double allowed = set == "reference" ? 1e-5 : is_gpu(set) ? 2e-3 : 3e-2;
    EXPECT_LE(relative_error(runner.whole(tokens), expected), allowed) << set << ", the prompt";
    std::vector<float> decoded;
    for (std::size_t first = 0, count = 8; first < tokens.size(); first += count, count = 1) {
      const auto begin = tokens.begin() + static_cast<std::ptrdiff_t>(first);
      const std::vector<std::int32_t> piece(begin, begin + static_cast<std::ptrdiff_t>(count));
      const std::vector<float> logits = runner.step({{piece, static_cast<std::int32_t>(first), {1}}});
      decoded.insert(decoded.end(), logits.begin(), logits.end());
    }
    EXPECT_LE(relative_error(decoded, expected), allowed) << set << ", decode steps";
  }
}

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
  ModelFile of_two = random_model({DType::q6_k});  // an embedding that is also the head, which may have a scale
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
}  // namespace rocmforge::testing::weight_formats_test
