#include "models/vision/vision_model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "kernels/register_all.h"
#include "models/error_text.h"
#include "models/model_file.h"
#include "models/runner.h"
#include "models/vision_golden.h"

// Image encoders beside transformers: pixels, rows, and logits behind images.
namespace rocmforge::testing {
namespace {

/// An encoder on the device of a kernel set.
class Encoder {
 public:
  Encoder(const std::string& name, const std::string& set, const VisionOptions& options = {})
      : text_(vision_path(name + ".gguf")),
        file_(vision_path("mmproj-" + name + ".gguf")),
        runner_(text_, set, text_options()) {
    if (set == "reference") {
      register_reference_kernels(registry_);
    } else {
      register_all_kernels(registry_, &runner_.device());
    }
    vision_ = VisionModel::plan(file_, runner_.model().config(), registry_, runner_.device().info(), 2, options);
    vision_->load(runner_.device(), pool_);
  }

  [[nodiscard]] VisionModel& vision() { return *vision_; }
  [[nodiscard]] Runner& runner() { return runner_; }
  [[nodiscard]] std::vector<PreparedImage> prepare(const VisionGolden& golden) const {
    std::vector<PreparedImage> images;
    for (const VisionGolden::Seen& seen : golden.images) {
      for (PreparedImage& tile : vision_->prepare(seen.image)) {
        images.push_back(std::move(tile));
      }
    }
    return images;
  }

 private:
  static ModelOptions text_options() {
    ModelOptions options = f32_options();
    options.given_rows = true;
    options.spans = true;
    return options;
  }

  GgufFile text_;
  GgufFile file_;
  Runner runner_;
  KernelRegistry registry_;
  ThreadPool pool_{2};
  std::unique_ptr<VisionModel> vision_;
};

std::vector<float> rows_of(const VisionGolden& golden) {
  std::vector<float> rows;
  for (const VisionGolden::Seen& seen : golden.images) {
    rows.insert(rows.end(), seen.rows.begin(), seen.rows.end());
  }
  return rows;
}

/// An encoder on the CPU with other bytes in its file.
std::vector<float> rows_of_file(const ModelFile& encoder, const VisionGolden& golden, const std::string& text_name) {
  const OpenModel open(encoder);
  const GgufFile text{vision_path(text_name + ".gguf")};
  KernelRegistry registry;
  register_reference_kernels(registry);
  Device device;
  ThreadPool pool{2};
  const auto vision =
      VisionModel::plan(open.file, ModelConfig::from_gguf(text), registry, device.info(), 2, VisionOptions());
  vision->load(device, pool);
  return vision->encode(vision->prepare(golden.images.front().image));
}

/// The columns of Pixtral's merger change places when they are loaded, those of blocks too.
TEST(PixtralMerger, TakesEveryFormat) {
  const VisionGolden golden = read_vision_golden("pixtral");
  for (const DType dtype : {DType::f16, DType::q8_0}) {
    ModelFile model = ModelFile::golden("vision/mmproj-pixtral");
    model.convert("mm.patch_merger.weight", dtype);
    const std::vector<float> rows = rows_of_file(model, golden, "pixtral");
    EXPECT_LE(relative_error(rows_of_file(model.in_f32(), golden, "pixtral"), rows), 1e-6) << name(dtype);
    EXPECT_LE(relative_error(rows, golden.images.front().rows), 2e-2) << name(dtype);
  }
}

TEST(LinearLimits, ThoseOfOneInputAreTheSame) {
  const VisionGolden golden = read_vision_golden("gemma4-e");
  ModelFile model = ModelFile::golden("vision/mmproj-gemma4-e");
  *model.weight("v.blk.1.attn_k.input_max").floats() += 1.0f;
  EXPECT_THAT(error_text([&] { rows_of_file(model, golden, "gemma4-e"); }),
              ::testing::HasSubstr("blk.1.attn_k have the same input, but other limits of it"));
}

class VisionTest : public ::testing::TestWithParam<std::string> {
 protected:
  [[nodiscard]] static VisionOptions all_at_once(const VisionGolden& golden) {
    return {.max_rows = static_cast<std::int32_t>(std::ssize(rows_of(golden)) / golden.width)};
  }
};

TEST_P(VisionTest, PixelsAreThoseOfTheReferenceImplementation) {
  const VisionGolden golden = read_vision_golden(GetParam());
  Encoder encoder(GetParam(), kernel_sets().front());
  for (const VisionGolden::Seen& seen : golden.images) {
    std::vector<float> pixels;
    std::int64_t tokens = 0;
    for (const PreparedImage& tile : encoder.vision().prepare(seen.image)) {
      EXPECT_EQ(tile.grid_x, seen.columns);
      EXPECT_EQ(tile.grid_y, seen.lines);
      tokens += tile.tokens;
      pixels.insert(pixels.end(), tile.pixels.begin(), tile.pixels.end());
    }
    EXPECT_EQ(tokens, std::ssize(seen.rows) / golden.width);
    ASSERT_EQ(pixels.size(), seen.pixels.size());
    float most = 0.0f;
    for (std::size_t i = 0; i < seen.pixels.size(); ++i) {
      most = std::max(most, std::abs(pixels[i] - seen.pixels[i]));
    }
    EXPECT_LE(most, 1e-6f);
  }
}

TEST_P(VisionTest, RowsAreThoseOfTheReferenceImplementation) {
  const VisionGolden golden = read_vision_golden(GetParam());
  const std::vector<float> expected = rows_of(golden);
  for (const std::string& set : kernel_sets()) {
    if (const std::string problem = missing(set); !problem.empty()) {
      GTEST_SKIP() << problem;
    }
    Encoder encoder(GetParam(), set, all_at_once(golden));
    const std::vector<PreparedImage> images = encoder.prepare(golden);
    const std::vector<float> rows = encoder.vision().encode(images);
    EXPECT_LE(relative_error(rows, expected), logit_tolerance(set)) << set;
    std::vector<float> alone;
    for (const PreparedImage& image : images) {
      const std::vector<float> own = encoder.vision().encode({&image, 1});
      alone.insert(alone.end(), own.begin(), own.end());
    }
    expect_same_logits(alone, rows, set, "each image in a step of its own");
  }
}

/// The logits of the prompt in steps that end at `cuts`, in each of which images are encoded together.
std::vector<float> logits_of_prompt(Encoder& encoder, const VisionGolden& golden, const std::vector<std::int32_t>& cuts) {
  const std::vector<PreparedImage> images = encoder.prepare(golden);
  const bool axes = encoder.runner().model().config().position_axes > 1;
  std::vector<std::int32_t> places;
  std::vector<std::int32_t> firsts;  // of the images
  std::int32_t next = 0;
  std::size_t seen = 0;
  for (std::size_t i = 0; i < golden.tokens.size();) {
    if (golden.tokens[i] != VisionGolden::image_token) {
      places.insert(places.end(), 3, next++);
      ++i;
      continue;
    }
    firsts.push_back(static_cast<std::int32_t>(i));
    const PreparedImage& image = images[seen++];
    for (int token = 0; token < image.tokens; ++token, ++i) {
      places.insert(places.end(), {next, next + token / image.grid_x, next + token % image.grid_x});
    }
    next += std::max(image.grid_x, image.grid_y);
  }
  std::vector<float> logits;
  std::int32_t first = 0;
  for (const std::int32_t end : cuts) {
    Piece piece{.tokens = {golden.tokens.begin() + first, golden.tokens.begin() + end},
                .first_position = first,
                .blocks = {17, 3, 9, 5, 8, 2}};
    if (axes) {
      piece.places = {places.begin() + std::ptrdiff_t{3} * first, places.begin() + std::ptrdiff_t{3} * end};
    }
    BatchPlan plan;
    plan.clear();
    std::vector<const PreparedImage*> own;
    std::int32_t row = 0;
    for (std::size_t i = 0; i < images.size(); ++i) {
      if (firsts[i] < first || firsts[i] >= end) {
        continue;
      }
      own.push_back(&images[i]);
      for (int token = 0; token < images[i].tokens; ++token) {
        plan.overwritten_rows.push_back(firsts[i] - first + token);
        plan.given_rows.push_back(row++);
      }
      if (encoder.vision().config().both_directions) {
        piece.span.insert(piece.span.end(), {firsts[i] - first, images[i].tokens});
      }
    }
    if (!own.empty()) {
      plan.given = encoder.vision().encode_rows(own);
    }
    const std::vector<float> part = encoder.runner().step({piece}, plan);
    logits.insert(logits.end(), part.begin(), part.end());
    first = end;
  }
  return logits;
}

/// A GPU's encoder has K and V in binary16. Their rounding alone, on the CPU, changes the logits of gemma4 by 3.8e-3.
double image_logit_tolerance(const std::string& set) { return (is_gpu(set) ? 3.0 : 1.0) * logit_tolerance(set); }

TEST_P(VisionTest, LogitsBehindImagesAreThoseOfTheReferenceImplementation) {
  const VisionGolden golden = read_vision_golden(GetParam());
  const auto length = static_cast<std::int32_t>(golden.tokens.size());
  std::vector<std::int32_t> cuts;  // before the second image, and behind it each token alone
  bool inside = false;
  for (std::int32_t i = 0; i + 1 < length; ++i) {
    const bool image = golden.tokens[static_cast<std::size_t>(i + 1)] == VisionGolden::image_token;
    if (image != inside || i + 4 >= length) {
      cuts.push_back(i + 1);
    }
    inside = image;
  }
  cuts.push_back(length);
  for (const std::string& set : kernel_sets()) {
    if (const std::string problem = missing(set); !problem.empty()) {
      GTEST_SKIP() << problem;
    }
    Encoder encoder(GetParam(), set, all_at_once(golden));
    const std::vector<float> whole = logits_of_prompt(encoder, golden, {length});
    EXPECT_LE(relative_error(whole, golden.logits), image_logit_tolerance(set)) << set;
    expect_same_logits(logits_of_prompt(encoder, golden, cuts), whole, set);
  }
}

INSTANTIATE_TEST_SUITE_P(Golden, VisionTest,
                         ::testing::Values("qwen3vl", "gemma3", "pixtral", "qwen2vl", "qwen25vl", "gemma4", "gemma4-e",
                                           "gemma4-u", "internvl", "internvl-6b", "idefics3", "glm4v", "lfm2"));

}  // namespace
}  // namespace rocmforge::testing
