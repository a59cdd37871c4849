#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "kernels/register_all.h"
#include "models/audio/audio_model.h"
#include "models/audio_golden.h"
#include "models/error_text.h"
#include "models/model_file.h"
#include "models/runner.h"
#include "sound_signal.h"

// Audio encoders beside transformers: from samples to rows.
namespace rocmforge::testing {
namespace {

ModelConfig text_of(const AudioGolden& golden) {
  ModelConfig text;
  text.hidden = static_cast<std::int32_t>(golden.width);
  return text;
}

/// An encoder on the device of a kernel set.
class Listener {
 public:
  Listener(const GgufFile& file, const ModelConfig& text, const std::string& set, const AudioOptions& options = {})
      : device_(is_gpu(set) ? gpu_under_test().device.get() : &own_) {
    if (set == "reference") {
      register_reference_kernels(registry_);
    } else {
      register_all_kernels(registry_, device_);
    }
    audio_ = AudioModel::plan(file, text, registry_, device_->info(), 2, options);
    audio_->load(*device_, pool_);
  }

  [[nodiscard]] AudioModel& audio() { return *audio_; }
  std::vector<float> rows_of(const std::vector<PreparedSound>& pieces) {
    std::vector<const PreparedSound*> all;
    for (const PreparedSound& piece : pieces) {
      all.push_back(&piece);
    }
    const std::span<const float> rows = audio_->read_rows(audio_->encode_rows(all));
    return {rows.begin(), rows.end()};
  }

 private:
  Device own_;
  Device* device_;
  KernelRegistry registry_;
  ThreadPool pool_{2};
  std::unique_ptr<AudioModel> audio_;
};

class AudioTest : public ::testing::TestWithParam<std::string> {};

TEST_P(AudioTest, RowsAreThoseOfTheReferenceImplementation) {
  const AudioGolden golden = read_audio_golden(GetParam());
  const GgufFile file(audio_path("mmproj-" + GetParam() + ".gguf"));
  for (const std::string& set : kernel_sets()) {
    if (const std::string problem = missing(set); !problem.empty()) {
      GTEST_SKIP() << problem;
    }
    Listener listener(file, text_of(golden), set, {.max_rows = 512});
    for (const AudioGolden::Heard& heard : golden.recordings) {
      const std::vector<PreparedSound> pieces = listener.audio().prepare(heard.samples);
      const std::vector<float> rows = listener.rows_of(pieces);
      ASSERT_EQ(rows.size(), heard.rows.size()) << set;
      EXPECT_LE(relative_error(rows, heard.rows), logit_tolerance(set)) << set << ", samples " << heard.samples.size();
      EXPECT_LE(std::ssize(rows) / golden.width, listener.audio().most_tokens(std::ssize(heard.samples)));
    }
  }
}

TEST_P(AudioTest, RowsFollowThoseOfAnotherEncoder) {
  const AudioGolden golden = read_audio_golden(GetParam());
  const GgufFile file(audio_path("mmproj-" + GetParam() + ".gguf"));
  Listener listener(file, text_of(golden), "reference", {.max_rows = 512});
  const std::vector<PreparedSound> pieces = listener.audio().prepare(golden.recordings[0].samples);
  const PreparedSound* first = &pieces.front();
  const GivenRows once = listener.audio().encode_rows({&first, 1});
  const std::span<const float> alone = listener.audio().read_rows(once);
  const std::vector<float> expected(alone.begin(), alone.end());
  const GivenRows twice = listener.audio().encode_rows({&first, 1}, once);
  EXPECT_EQ(twice.data, once.data);
  EXPECT_EQ(twice.count, 2 * first->tokens);
  const std::span<const float> both = listener.audio().read_rows(twice);
  EXPECT_TRUE(std::ranges::equal(both.first(expected.size()), expected));
  EXPECT_TRUE(std::ranges::equal(both.subspan(expected.size()), expected));
}

TEST_P(AudioTest, PiecesAreKnownByTheirContent) {
  const AudioGolden golden = read_audio_golden(GetParam());
  const GgufFile file(audio_path("mmproj-" + GetParam() + ".gguf"));
  Listener listener(file, text_of(golden), "reference");
  const auto prepare = [&](std::size_t recording) { return listener.audio().prepare(golden.recordings[recording].samples); };
  EXPECT_EQ(prepare(0).front().content, prepare(0).front().content);
  EXPECT_NE(prepare(0).front().content, prepare(1).front().content);
  EXPECT_EQ(prepare(2).size(), 2U);
  EXPECT_THAT(error_text([&] { static_cast<void>(listener.audio().prepare({})); }),
              ::testing::HasSubstr("which is too short"));
}

INSTANTIATE_TEST_SUITE_P(Projectors, AudioTest, ::testing::Values("qwen2a", "ultravox", "voxtral", "qwen2.5o"),
                         [](const auto& instance) {
                           std::string name = instance.param;
                           std::ranges::replace(name, '.', '_');
                           return name;
                         });

/// The refusal of an encoder after `change`.
template <class Change>
std::string refusal_of(const std::string& name, const Change& change, std::int32_t text_width = 32) {
  ModelFile model = ModelFile::golden("audio/mmproj-" + name);
  change(model);
  const OpenModel open(model);
  ModelConfig text;
  text.hidden = text_width;
  return error_text([&] { AudioConfig::from_gguf(open.file, text); });
}

TEST(AudioConfig, ReadsTheNumbersOfAFile) {
  const AudioGolden golden = read_audio_golden("ultravox");
  const AudioConfig config = AudioConfig::from_gguf(GgufFile(audio_path("mmproj-ultravox.gguf")), text_of(golden));
  EXPECT_EQ(config.stack, 3);
  EXPECT_EQ(config.bands, 80);
  EXPECT_EQ(config.states, 32);
  EXPECT_EQ(config.projector_width, 20);
  EXPECT_EQ(config.max_rows(), 11);
  const AudioConfig omni = AudioConfig::from_gguf(GgufFile(audio_path("mmproj-qwen2.5o.gguf")), text_of(golden));
  EXPECT_EQ(omni.frames(), 200);
  EXPECT_EQ(omni.spectrum_frames, 3000);
}

TEST(AudioConfig, OtherFilesAreRefusedByName) {
  EXPECT_THAT(refusal_of("qwen2a", [](ModelFile& model) { model.set("clip.projector_type", std::string("gemma4a")); }),
              ::testing::EndsWith("the audio projector 'gemma4a' is not supported, those supported are ultravox, qwen2a, "
                                  "qwen2.5o, voxtral"));
  EXPECT_THAT(refusal_of(
                  "qwen2a", [](ModelFile&) {}, 48),
              ::testing::EndsWith("key 'clip.audio.projection_dim' is 32, the model has rows of 48: this encoder is another "
                                  "model's"));
  EXPECT_THAT(
      refusal_of("voxtral", [](ModelFile& model) { model.set("clip.audio.projector.stack_factor", std::uint64_t{3}); }),
      ::testing::HasSubstr("which does not divide the 32 states of a piece"));
  EXPECT_THAT(refusal_of("voxtral", [](ModelFile& model) { model.set("clip.audio.block_count", std::uint64_t{4'000'000}); }),
              ::testing::HasSubstr("but the file has"));
}

}  // namespace
}  // namespace rocmforge::testing
