// From a conversation with images to the answer of a model that sees them.
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "engine/engine.h"
#include "models/vision/vision_model.h"
#include "paths.h"
#include "service/image_files.h"
#include "service/service_error.h"
#include "service/service_testing.h"
#include "service/stream.h"
#include "service/turn.h"

namespace rocmforge {
namespace {

class VisionTurn : public testing::Test {
 protected:
  void SetUp() override {
    EngineOptions options;
    options.device = "cpu";
    options.threads = 2;
    options.context_length = 128;
    options.kv_tokens = 512;
    options.max_sequences = 2;
    options.max_batch_tokens = 128;
    options.image_tokens = 12;
    options.mmproj = test::test_data("golden/models/vision/mmproj-qwen3vl.gguf");
    ServiceOptions service = named("eye");
    service.image_sources.folder = test::test_data("golden/images");
    model_ = models_.add(load_model(test::test_data("golden/models/vision/qwen3vl-chat.gguf"), options), service);
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
  static ImagePart image(const std::string& name) {
    return {.url = url_of_file(test::test_data("golden/images/" + name)), .field = "f"};
  }

  Models models_;
  std::shared_ptr<ModelInstance> model_;
};

TEST_F(VisionTurn, ImagesBecomeSpansOfThePrompt) {
  ASSERT_TRUE(model_->facts().images.has_value());
  const Turn asked = turn({TextPart{"ab"}, image("rgb.png"), TextPart{"<|image_pad|>"}, image("photo.jpg")});
  const Request& request = asked.request;
  ASSERT_EQ(request.spans.size(), 2u);
  ASSERT_EQ(request.inputs.size(), 2u);
  EXPECT_TRUE(asked.images.empty());
  const std::int32_t pad = model_->facts().text().find("<|image_pad|>");
  std::size_t pads = 0;
  for (const std::int32_t id : request.prompt) {
    pads += id == pad ? 1 : 0;
  }
  EXPECT_EQ(pads, static_cast<std::size_t>(request.spans[0].count + request.spans[1].count)) << "no text is an image";
  for (std::size_t i = 0; i < request.spans.size(); ++i) {
    EXPECT_EQ(request.spans[i].count, tokens_of(request.inputs[i]));
    EXPECT_EQ(request.prompt[static_cast<std::size_t>(request.spans[i].first)], pad);
    EXPECT_NE(request.prompt[static_cast<std::size_t>(request.spans[i].first) - 1], pad)
        << "the template's mark is before it";
    EXPECT_NE(request.prompt[static_cast<std::size_t>(request.spans[i].end())], pad);
  }
}

TEST_F(VisionTurn, TheAnswerDependsOnTheImage) {
  const std::vector<Part> one = {image("rgb.png"), TextPart{"what is it"}};
  const std::vector<Part> other = {image("transparent.gif"), TextPart{"what is it"}};
  const std::string first = answer(one);
  EXPECT_FALSE(first.empty());
  EXPECT_EQ(answer(one), first) << "also where the prefix cache has it";
  EXPECT_EQ(turn(one).request.prompt, turn(other).request.prompt);
  EXPECT_NE(turn(one).request.spans[0].content, turn(other).request.spans[0].content);
}

TEST_F(VisionTurn, AnImageThatTheEncoderCannotTakeNamesItsField) {
  try {
    turn({image("tall.jpg"), TextPart{"q"}});
    turn({ImagePart{.url = "data:image/png;base64,AAAA", .field = "f"}});
    FAIL() << "no error";
  } catch (const ServiceError& error) {
    EXPECT_EQ(error.field, "f");
    EXPECT_TRUE(error.message.starts_with("f: ")) << error.message;
  }
}

}  // namespace
}  // namespace rocmforge
