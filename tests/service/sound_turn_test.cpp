// From a conversation with recordings to the answer of a model that hears them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "engine/engine.h"
#include "engine/images.h"
#include "paths.h"
#include "service/image_files.h"
#include "service/service_error.h"
#include "service/service_testing.h"
#include "service/sounds.h"
#include "service/stream.h"
#include "service/turn.h"

namespace rocmforge {
namespace {

class SoundTurn : public testing::Test {
 protected:
  void SetUp() override {
    EngineOptions options;
    options.device = "cpu";
    options.threads = 2;
    options.context_length = 128;
    options.kv_tokens = 512;
    options.max_sequences = 2;
    options.max_batch_tokens = 128;
    options.mmproj = test::test_data("golden/models/audio/mmproj-qwen2a.gguf");
    ServiceOptions service = named("ear");
    service.image_sources.folder = test::test_data("golden/audio");
    model_ = models_.add(load_model(test::test_data("golden/models/audio/qwen2vl-chat.gguf"), options), service);
  }

  Turn turn(std::vector<Part> parts) {
    Reading reading(200'000'000, nullptr, "c");
    TurnRequest asked{.conversation = {.messages = {{.role = Role::user, .content = std::move(parts)}}}};
    asked.request.max_tokens = 8;
    asked.request.ignore_eos = true;
    asked.request.sampling.temperature = 0.0f;
    return make_turn(std::move(asked), *model_, reading);
  }
  std::string answer(std::vector<Part> parts) {
    return wait_for_answer(model_->loop(), turn(std::move(parts)).request).text;
  }
  std::string refusal(std::vector<Part> parts) {
    try {
      turn(std::move(parts));
    } catch (const ServiceError& error) {
      EXPECT_EQ(error.field, "f");
      return error.message;
    }
    return "no error";
  }
  static SoundPart sound(const std::string& name) {
    return {.url = url_of_file(test::test_data("golden/audio/" + name)), .field = "f"};
  }

  Models models_;
  std::shared_ptr<ModelInstance> model_;
};

TEST_F(SoundTurn, RecordingsBecomeSpansOfThePrompt) {
  ASSERT_TRUE(model_->facts().sounds.has_value());
  EXPECT_FALSE(model_->facts().images.has_value());
  const Turn asked = turn({TextPart{"ab"}, sound("pcm16.wav"), TextPart{"<|AUDIO|>"}, sound("tones.flac")});
  const Request& request = asked.request;
  ASSERT_EQ(request.spans.size(), 2u);  // of 2,400 samples each: 15 frames, 8 states, 4 rows
  const std::int32_t token = model_->facts().text().find("<|AUDIO|>");
  std::size_t tokens = 0;
  for (const std::int32_t id : request.prompt) {
    tokens += id == token ? 1 : 0;
  }
  EXPECT_EQ(tokens, 8u) << "no text is a recording";
  for (std::size_t i = 0; i < request.spans.size(); ++i) {
    EXPECT_EQ(request.spans[i].count, 4);
    EXPECT_EQ(tokens_of(request.inputs[i]), 4);
    EXPECT_EQ(request.prompt[static_cast<std::size_t>(request.spans[i].first)], token);
    EXPECT_NE(request.prompt[static_cast<std::size_t>(request.spans[i].first) - 1], token);
    EXPECT_NE(request.prompt[static_cast<std::size_t>(request.spans[i].end())], token);
  }
}

TEST_F(SoundTurn, TheAnswerDependsOnTheRecording) {
  const std::vector<Part> one = {sound("pcm16.wav"), TextPart{"what is it"}};
  const std::vector<Part> other = {sound("opus.ogg"), TextPart{"what is it"}};
  const std::string first = answer(one);
  EXPECT_FALSE(first.empty());
  EXPECT_EQ(answer(one), first) << "also where the prefix cache has it";
  EXPECT_NE(turn(one).request.spans[0].content, turn(other).request.spans[0].content);
}

TEST_F(SoundTurn, OneThatCannotBeReadNamesItsField) {
  EXPECT_EQ(refusal({sound("nan.wav"), TextPart{"q"}}),
            "f: a recording in WAV: it has samples that are no numbers, or far beyond full scale");
  EXPECT_EQ(refusal({SoundPart{.url = "data:;base64,AAAA", .field = "f"}}),
            "f: the recording is of an unknown format; read are WAV, FLAC, MP3, Ogg");
  EXPECT_EQ(refusal(std::vector<Part>(17, sound("pcm16.wav"))), "the request has 17 recordings, at most 16 are read");
  EXPECT_EQ(refusal({ImagePart{.url = "data:image/png;base64,AAAA", .field = "f"}}),
            "the model reads text alone and can't see images");
}

TEST(SoundTurns, AllRecordingsOfARequestShareTheirSeconds) {
  Reading reading(200'000'000, nullptr, "c");
  const SoundPart part{.url = {},
                       .field = "f",
                       .bytes = std::make_shared<const std::string>(
                           read_image_file(url_of_file(test::test_data("golden/audio/pcm16.wav")), "/", 1 << 20))};
  const SoundPart* const two[] = {&part, &part};
  ImageAllowance allowance;
  EXPECT_EQ(read_sounds(two, {}, allowance, reading).size(), 2u);
  EXPECT_EQ(allowance.sounds, most_sounds - 2);
  EXPECT_EQ(allowance.sound_seconds, most_sound_seconds - 2) << "begun ones count";
  allowance.sound_seconds = 1;
  try {
    read_sounds(two, {}, allowance, reading);
    FAIL() << "no error";
  } catch (const ServiceError& error) {
    EXPECT_EQ(error.message, "f: a recording in WAV: it is longer than 0 seconds, which are read");
  }
}

TEST(SoundTurns, AModelWithoutAnEncoderHearsNone) {
  Models models;
  EngineOptions options;
  options.device = "cpu";
  options.context_length = 128;
  const auto model =
      models.add(load_model(test::test_data("golden/models/audio/qwen2vl-chat.gguf"), options), named("deaf"));
  Reading reading(200'000'000, nullptr, "c");
  TurnRequest asked{
      .conversation = {.messages = {{.role = Role::user, .content = std::vector<Part>{SoundPart{"data:", "f"}}}}}};
  try {
    make_turn(std::move(asked), *model, reading);
    FAIL() << "no error";
  } catch (const ServiceError& error) {
    EXPECT_EQ(error.message, "the model reads text alone and can't hear recordings");
  }
}

}  // namespace
}  // namespace rocmforge
