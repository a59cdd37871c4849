// Requests with recordings, and with images between them: what follows is what the reference implementation gives, whatever
// else runs.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "engine/engine.h"
#include "engine/images.h"
#include "models/audio_golden.h"
#include "models/model_file.h"
#include "models/vision_golden.h"
#include "temporary_folder.h"

namespace rocmforge {
namespace {

using testing::HeardGolden;
using testing::ModelFile;
using testing::VisionGolden;
using Tokens = std::vector<std::int32_t>;

/// The image encoder of Qwen2.5-VL and the audio encoder of Qwen2.5-Omni in one file, as that model has them.
void write_both_encoders(const std::string& path) {
  ModelFile both = ModelFile::golden("vision/mmproj-qwen25vl");
  const ModelFile audio = ModelFile::golden("audio/mmproj-qwen2.5o");
  for (const auto& [key, value] : audio.metadata) {
    if (key.find("audio") != std::string::npos) {
      both.set(key, value);
    }
  }
  both.set("clip.projector_type", std::string("qwen2.5o"));
  for (const ModelFile::Weight& weight : audio.weights) {
    if (weight.name.starts_with("a.") || weight.name.starts_with("mm.a.")) {
      both.weights.push_back(weight);
    }
  }
  const std::vector<std::byte> bytes = both.bytes();
  std::ofstream(path, std::ios::binary)
      .write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
}

class Sounds : public ::testing::TestWithParam<std::string> {
 protected:
  [[nodiscard]] static bool sees() { return GetParam() == "qwen2.5o"; }

  [[nodiscard]] EngineOptions options(std::int32_t max_batch_tokens = 128) const {
    EngineOptions options;
    options.device = "cpu";
    options.threads = 2;
    options.context_length = 192;
    options.kv_tokens = 768;
    options.max_sequences = 4;
    options.max_batch_tokens = max_batch_tokens;
    options.model.kv_dtype = DType::f32;
    options.mmproj = testing::audio_path("mmproj-" + GetParam() + ".gguf");
    if (sees()) {
      options.mmproj = (folder_.path() / "mmproj.gguf").string();
      write_both_encoders(options.mmproj);
      options.image_tokens = 12;
    }
    return options;
  }
  [[nodiscard]] static std::unique_ptr<Engine> load(const EngineOptions& options) {
    return load_model(sees() ? testing::vision_path("qwen25vl.gguf") : testing::audio_path("qwen2a.gguf"), options);
  }

  /// The pieces of the golden prompt's recordings, the first of which is so much louder.
  [[nodiscard]] static std::vector<EncoderInput> pieces(const Engine& engine, float louder) {
    std::vector<EncoderInput> pieces;
    const testing::AudioGolden golden = testing::read_audio_golden(GetParam());
    for (std::size_t i : {1, 2}) {
      std::vector<float> samples = golden.recordings[i].samples;
      for (std::size_t at = 0; i == 1 && at < samples.size() / 2; ++at) {
        samples[at] *= louder;
      }
      for (PreparedSound& piece : engine.audio()->prepare(samples)) {
        pieces.emplace_back(std::make_shared<const PreparedSound>(std::move(piece)));
      }
    }
    return pieces;
  }

  /// The golden prompt, with `behind` more tokens of a text.
  [[nodiscard]] Request prompt(const Engine& engine, float louder = 1.0f, std::int32_t behind = 0) const {
    Request request;
    request.prompt = golden_.tokens;
    for (std::int32_t i = 0; i < behind; ++i) {
      request.prompt.push_back(7 + i * 5 % 90);
    }
    request.max_tokens = 6;
    request.ignore_eos = true;
    request.logits = true;
    request.sampling.temperature = 0.0f;
    const std::vector<EncoderInput> sounds = pieces(engine, louder);
    auto sound = sounds.begin();
    for (std::int32_t at = 0; at < std::ssize(request.prompt); ++at) {
      const std::int32_t token = request.prompt[static_cast<std::size_t>(at)];
      if (!request.spans.empty() && at < request.spans.back().end()) {
        continue;
      }
      if (token == HeardGolden::sound_token) {
        add_input(request, at, *sound++);
      } else if (token == VisionGolden::image_token) {
        std::vector<PreparedImage> tiles =
            engine.vision()->prepare(testing::read_vision_golden("qwen25vl").images.front().image);
        add_input(request, at, std::make_shared<const PreparedImage>(std::move(tiles.front())));
      }
    }
    EXPECT_TRUE(sound == sounds.end());
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
    double difference = 0.0;
    double size = 0.0;
    for (std::size_t i = 0; i < golden_.logits.size(); ++i) {
      difference += std::pow(result.logits[i] - golden_.logits[i], 2.0);
      size += std::pow(golden_.logits[i], 2.0);
    }
    return std::sqrt(difference / size);
  }

  TemporaryFolder folder_;
  HeardGolden golden_ = testing::read_heard_golden(GetParam());
};

TEST_P(Sounds, AnAnswerFollowsWhatTheyHold) {
  const auto engine = load(options());
  const Result heard = run(*engine, prompt(*engine));
  ASSERT_EQ(heard.tokens.size(), 6u);
  EXPECT_LE(error(heard), 1e-4);
  EXPECT_GT(error(run(*engine, prompt(*engine, 0.0f))), 1e-3) << "another recording";
}

TEST_P(Sounds, TheAnswerIsTheSameInPiecesBesideOthersAndBehindAKnownPrefix) {
  const auto whole = load(options());
  const auto longer = [this](const Engine& engine, float louder = 1.0f) { return prompt(engine, louder, 40); };
  const Result alone = run(*whole, longer(*whole));
  const Result again = run(*whole, longer(*whole));
  EXPECT_EQ(again.logits, alone.logits) << "behind a prefix that is known";
  const std::vector<TokenSpan> spans = longer(*whole).spans;
  EXPECT_GE(again.cached, spans.back().end());
  const Result other = run(*whole, longer(*whole, 0.0f));
  EXPECT_NE(other.logits, alone.logits);
  EXPECT_LE(other.cached, spans.front().first) << "another recording ends the known prefix";

  EngineOptions few = options(1);  // as many as a piece or an image needs
  few.max_sequences = 1;
  const auto pieces = load(few);
  EXPECT_EQ(run(*pieces, longer(*pieces)).logits, alone.logits) << "in pieces";

  const auto busy = load(options());
  Request text = prompt(*busy);
  std::erase_if(text.prompt, [](std::int32_t token) { return token > 100; });
  text.spans.clear();
  text.inputs.clear();
  text.max_tokens = 20;
  const RequestId first = busy->submit(text);
  busy->step();
  const RequestId both[] = {busy->submit(longer(*busy)), busy->submit(longer(*busy, 0.0f)), busy->submit(text)};
  std::map<RequestId, Result> results = run(*busy);
  EXPECT_EQ(results[both[0]].logits, alone.logits) << "beside others";
  EXPECT_EQ(results[both[1]].logits, other.logits) << "beside others";
  EXPECT_EQ(results[first].tokens.back(), results[both[2]].tokens.back());
}

TEST_P(Sounds, PreemptedOnesAreEncodedAgain) {
  const auto ask = [this](const Engine& engine, float louder) {
    Request request = prompt(engine, louder);
    request.max_tokens = 48;
    return request;
  };
  const float loud[] = {1.0f, 0.0f, 0.5f};
  const auto alone = load(options());
  std::vector<Result> expected;
  for (const float louder : loud) {
    expected.push_back(run(*alone, ask(*alone, louder)));
  }
  EngineOptions tight = options();
  tight.kv_tokens = (std::ssize(golden_.tokens) + 16) / 16 * 16 * 2 + 32;  // two prompts, not their answers
  tight.max_sequences = 3;
  const auto engine = load(tight);
  std::vector<RequestId> ids;
  for (const float louder : loud) {
    ids.push_back(engine->submit(ask(*engine, louder)));
  }
  std::map<RequestId, Result> results = run(*engine);
  EXPECT_GT(engine->status().preemptions, 0);
  for (std::size_t i = 0; i < ids.size(); ++i) {
    EXPECT_EQ(results[ids[i]].logits, expected[i].logits) << i;
  }
}

TEST_P(Sounds, WrongOnesAreRefused) {
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
  EngineOptions deaf = options();
  deaf.mmproj.clear();
  EXPECT_EQ(refused(*load(deaf), prompt(*engine)),
            "the model hears no recordings: it was loaded without an audio encoder (mmproj)");
}

INSTANTIATE_TEST_SUITE_P(Golden, Sounds, ::testing::Values("qwen2a", "qwen2.5o"));

}  // namespace
}  // namespace rocmforge
