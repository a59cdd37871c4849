// Requests with images: what follows an image is what the reference implementation gives, whatever else runs.

#include "engine/images.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "engine/engine.h"
#include "error_of.h"
#include "models/vision_golden.h"

namespace rocmforge {
namespace {

using testing::VisionGolden;
using Tokens = std::vector<std::int32_t>;

class Images : public ::testing::TestWithParam<std::string> {
 protected:
  [[nodiscard]] static EngineOptions options(std::int32_t max_batch_tokens = 128) {
    EngineOptions options;
    options.device = "cpu";
    options.threads = 2;
    options.context_length = 128;
    options.kv_tokens = 512;
    options.max_sequences = 4;
    options.max_batch_tokens = max_batch_tokens;
    options.model.kv_dtype = DType::f32;
    options.mmproj = testing::vision_path("mmproj-" + GetParam() + ".gguf");
    options.image_tokens = GetParam() == "idefics3" ? 20 : 12;  // what those of its files are made for
    return options;
  }
  [[nodiscard]] static std::unique_ptr<Engine> load(const EngineOptions& options) {
    return load_model(testing::vision_path(GetParam() + ".gguf"), options);
  }

  /// The golden prompt. `brighter`: of the first image; `behind`: more tokens of a text.
  [[nodiscard]] Request prompt(const Engine& engine, int brighter = 0, std::int32_t behind = 0) const {
    Request request;
    request.prompt = golden_.tokens;
    for (std::int32_t i = 0; i < behind; ++i) {
      request.prompt.push_back(7 + i * 5 % 90);
    }
    request.max_tokens = 6;
    request.ignore_eos = true;
    request.logits = true;
    request.sampling.temperature = 0.0f;
    std::vector<std::shared_ptr<const PreparedImage>> tiles;
    for (const VisionGolden::Seen& seen : golden_.images) {
      Image image = seen.image;
      for (std::uint8_t& value : image.rgb) {
        value = static_cast<std::uint8_t>(std::min(value + (tiles.empty() ? brighter : 0), 255));
      }
      for (PreparedImage& tile : engine.vision()->prepare(image)) {
        tiles.push_back(std::make_shared<const PreparedImage>(std::move(tile)));
      }
    }
    std::size_t next = 0;
    for (std::size_t i = 0; i < request.prompt.size() && next < tiles.size(); ++i) {
      const bool begins = request.prompt[i] == VisionGolden::image_token &&
                          (request.spans.empty() || static_cast<std::int32_t>(i) >= request.spans.back().end());
      if (begins) {
        add_input(request, static_cast<std::int32_t>(i), tiles[next++]);
      }
    }
    EXPECT_EQ(next, tiles.size());
    return request;
  }

  struct Result {
    Tokens tokens;
    std::vector<float> logits;
    std::int32_t cached = 0;
  };
  static std::map<RequestId, Result> run(Engine& engine) {
    std::map<RequestId, Result> results;
    while (engine.has_work()) {
      for (const StepOutput& output : engine.step()) {
        EXPECT_NE(output.finish, FinishReason::error) << output.text;
        Result& result = results[output.id];
        result.tokens.insert(result.tokens.end(), output.tokens.begin(), output.tokens.end());
        result.logits.insert(result.logits.end(), output.logits.begin(), output.logits.end());
        result.cached = output.stats ? output.stats->cached_tokens : 0;
      }
    }
    return results;
  }
  static Result run(Engine& engine, Request request) {
    const RequestId id = engine.submit(std::move(request));
    return run(engine)[id];
  }
  [[nodiscard]] double error(const Result& result) const {
    const std::size_t vocab = golden_.logits.size() / golden_.tokens.size();
    const float* expected = golden_.logits.data() + golden_.logits.size() - vocab;
    double difference = 0.0;
    double size = 0.0;
    for (std::size_t i = 0; i < vocab; ++i) {
      difference += std::pow(result.logits[i] - expected[i], 2.0);
      size += std::pow(expected[i], 2.0);
    }
    return std::sqrt(difference / size);
  }

  VisionGolden golden_ = testing::read_vision_golden(GetParam());
};

TEST_P(Images, AnAnswerFollowsWhatTheyShow) {
  const auto engine = load(options());
  const Result seen = run(*engine, prompt(*engine));
  ASSERT_EQ(seen.tokens.size(), 6u);
  EXPECT_LE(error(seen), 1e-4);
  EXPECT_GT(error(run(*engine, prompt(*engine, 90))), 1e-3) << "another image";
}

TEST_P(Images, TheAnswerIsTheSameInPiecesBesideOthersAndBehindAKnownPrefix) {
  const auto whole = load(options());
  const auto longer = [this](const Engine& engine, int brighter = 0) { return prompt(engine, brighter, 40); };
  const Result alone = run(*whole, longer(*whole));
  const Result again = run(*whole, longer(*whole));
  EXPECT_EQ(again.logits, alone.logits) << "behind a prefix that is known";
  const std::vector<TokenSpan> spans = longer(*whole).spans;
  EXPECT_GE(again.cached, spans.back().end());
  const Result other = run(*whole, longer(*whole, 90));
  EXPECT_LE(other.cached, spans.front().first) << "another image ends the known prefix";

  const auto pieces = load(options(15));
  EXPECT_EQ(run(*pieces, longer(*pieces)).logits, alone.logits) << "in pieces";

  const auto busy = load(options());
  Request text = prompt(*busy);
  std::erase(text.prompt, VisionGolden::image_token);
  text.spans.clear();
  text.inputs.clear();
  text.max_tokens = 20;
  const RequestId first = busy->submit(text);
  busy->step();
  const RequestId both[] = {busy->submit(longer(*busy)), busy->submit(longer(*busy, 90)), busy->submit(text)};
  std::map<RequestId, Result> results = run(*busy);
  EXPECT_EQ(results[both[0]].logits, alone.logits) << "beside others";
  EXPECT_EQ(results[both[1]].logits, other.logits) << "beside others";
  EXPECT_EQ(results[both[2]].tokens.size(), 20u);
  EXPECT_EQ(results[first].tokens.back(), results[both[2]].tokens.back());
}

TEST_P(Images, WrongOnesAreRefused) {
  const auto engine = load(options());
  const auto refused = [](Engine& by, Request request) {
    by.submit(std::move(request));
    const StepOutput output = by.step().at(0);
    EXPECT_EQ(output.error, RequestError::invalid);
    return output.text;
  };
  Request missing = prompt(*engine);
  missing.inputs.pop_back();
  EXPECT_EQ(refused(*engine, missing), fmt::format("the prompt has places for {} images and pieces of recordings, {} came "
                                                   "with it",
                                                   missing.spans.size(), missing.inputs.size()));
  Request shorter = prompt(*engine);
  --shorter.spans[1].count;
  EXPECT_EQ(refused(*engine, shorter), "image or piece 1 has other tokens than the prompt has for it");
  EngineOptions blind = options();
  blind.mmproj.clear();
  EXPECT_EQ(refused(*load(blind), prompt(*engine)),
            "the model sees no images: it was loaded without an image encoder (mmproj)");
}

TEST(FoundEncoder, OfAnotherModelIsPassedOver) {
  EngineOptions options;
  options.device = "cpu";
  options.threads = 2;
  options.context_length = 128;
  options.mmproj = testing::vision_path("mmproj-gemma3.gguf");
  const std::string model = testing::vision_path("qwen3vl.gguf");
  EXPECT_NE(test::error_of([&] { static_cast<void>(load_model(model, options)); }).find("this encoder is another model's"),
            std::string::npos);
  options.mmproj_is_found = true;
  EXPECT_EQ(load_model(model, options)->vision(), nullptr);
}

INSTANTIATE_TEST_SUITE_P(Golden, Images,
                         ::testing::Values("qwen3vl", "gemma3", "pixtral", "qwen2vl", "qwen25vl", "gemma4", "gemma4-e",
                                           "gemma4-u", "internvl", "internvl-6b", "idefics3", "glm4v"));

}  // namespace
}  // namespace rocmforge
