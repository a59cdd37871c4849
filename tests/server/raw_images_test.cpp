// Prompts with images that a model continues, beside the same of a conversation.
#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "engine/engine.h"
#include "models/vision/vision_model.h"
#include "paths.h"
#include "server/api/raw_prompts.h"
#include "service/service_testing.h"
#include "service/turn.h"

namespace rocmforge {
namespace {

constexpr const char* png =
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";

TEST(RawImages, ArePromptsLikeThoseOfAConversation) {
  EngineOptions options;
  options.device = "cpu";
  options.threads = 2;
  options.context_length = 128;
  options.image_tokens = 12;
  options.mmproj = test::test_data("golden/models/vision/mmproj-qwen3vl.gguf");
  Models models;
  const auto model =
      models.add(load_model(test::test_data("golden/models/vision/qwen3vl-chat.gguf"), options), named("eye"));
  Reading reading(200'000'000, nullptr, "c");

  const std::string url = std::string("data:image/png;base64,") + png;
  const ImagePart image{.url = url, .field = "f"};
  TurnRequest asked{.conversation = {.messages = {{.role = Role::user,
                                                   .content = std::vector<Part>{TextPart{"ab"}, image, TextPart{"what"}}}}}};
  const Request expected = make_turn(std::move(asked), *model, reading).request;

  const Json value = {{"prompt_string", "ab<__media__>what"}, {"multimodal_data", {png}}};
  Fields fields(value);
  Request request;
  ImageAllowance allowance;
  give_prompt(request, read_raw_prompt(fields, "prompt", value, model->facts(), reading, {.parse_special = true}),
              model->facts(), allowance, reading);
  EXPECT_EQ(request.prompt, expected.prompt);
  ASSERT_EQ(request.spans.size(), 1u);
  EXPECT_EQ(request.spans[0].first, expected.spans[0].first);
  EXPECT_EQ(request.spans[0].count, expected.spans[0].count);
  EXPECT_EQ(request.spans[0].content, expected.spans[0].content);
  ASSERT_EQ(request.inputs.size(), 1u);
  const auto pixels_of = [](const Request& each) {
    return std::get<std::shared_ptr<const PreparedImage>>(each.inputs.at(0))->pixels;
  };
  EXPECT_EQ(pixels_of(request), pixels_of(expected));
}

}  // namespace
}  // namespace rocmforge
