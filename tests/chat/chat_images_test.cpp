// Images among the parts of messages, in the templates of models that see them and of others.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "chat/chat_template_files.h"
#include "chat/conversation.h"
#include "error_of.h"

namespace rocmforge {
namespace {

using test::chat_template_of;
using test::error_of;
using testing::HasSubstr;
using testing::Not;

const ImagePart image{.url = "data:,"};

Message result_with(Content content) { return {.role = Role::tool, .content = std::move(content), .call_id = "abcdef123"}; }
Message call() {
  Message message{.role = Role::assistant, .content = ""};
  message.calls.push_back({.id = "abcdef123", .name = "look", .arguments = "{}"});
  return message;
}

/// The rendered prompt.
std::string rendered(const std::string& model, std::vector<Message> messages) {
  Conversation conversation{.messages = std::move(messages)};
  return text_of(chat_template_of(model).prompt(conversation.request()).segments);
}

struct Case {
  std::string model, mark;
  bool in_results = false;
};

class ImageTemplates : public testing::TestWithParam<Case> {};

TEST_P(ImageTemplates, WriteAMarkWhereAnImageStands) {
  const auto& [model, mark, in_results] = GetParam();
  const ChatTemplate chat_template = chat_template_of(model);
  const ChatAbilities& abilities = chat_template.abilities();
  EXPECT_TRUE(abilities.images.user);
  EXPECT_EQ(abilities.images.tool, in_results);
  const std::string text = rendered(
      model, {{.role = Role::user, .content = std::vector<Part>{TextPart{"alpha-1"}, image, TextPart{"omega-2"}, image}}});
  const std::size_t first = text.find(mark), second = text.find(mark, first + 1);
  ASSERT_NE(second, std::string::npos) << text;
  EXPECT_EQ(text.find(mark, second + 1), std::string::npos) << text;
  EXPECT_LT(text.find("alpha-1"), text.find("omega-2"));
}

TEST_P(ImageTemplates, ShowImagesOfResults) {
  const auto& [model, mark, in_results] = GetParam();
  const std::string text =
      rendered(model, {text_message(Role::user, "look"), call(), result_with(std::vector<Part>{TextPart{"seen"}, image})});
  EXPECT_THAT(text, HasSubstr("seen"));
  EXPECT_THAT(text, HasSubstr(mark));
  EXPECT_THAT(text, Not(HasSubstr("'type'")));
}

TEST_P(ImageTemplates, TheMarkIsTheTemplatesOwnText) {
  const auto& [model, mark, in_results] = GetParam();
  Conversation conversation{.messages = {{.role = Role::user, .content = std::vector<Part>{image, TextPart{mark}}}}};
  int written = 0, sent = 0;
  for (const ChatSegment& segment : chat_template_of(model).prompt(conversation.request()).segments) {
    (segment.from_template ? written : sent) += segment.text.find(mark) != std::string::npos ? 1 : 0;
  }
  EXPECT_EQ(written, 1);
  EXPECT_EQ(sent, 1);
}

INSTANTIATE_TEST_SUITE_P(OfModels, ImageTemplates,
                         testing::Values(Case{"more/Qwen3.5-4B", "<|image_pad|>", true},
                                         Case{"google-gemma-4-31B-it", "<|image|>", false},
                                         Case{"more/Mistral-Small-3.2-24B-Instruct-2506", "[IMG]", false},
                                         Case{"more/mistralai-Ministral-3-14B-Reasoning-2512", "[IMG]", false},
                                         Case{"more/Kimi-K2-Instruct",
                                              "<|media_start|>image<|media_content|><|media_pad|><|media_end|>", false}));

TEST(ChatImages, AreRefusedByTemplatesWithoutAPlaceForThem) {
  const std::vector<Message> messages = {{.role = Role::user, .content = std::vector<Part>{TextPart{"a"}, image}}};
  for (const char* model : {"Qwen-Qwen3-0.6B", "meta-llama-Llama-3.1-8B-Instruct", "microsoft-Phi-3.5-mini-instruct"}) {
    EXPECT_FALSE(chat_template_of(model).abilities().images.user) << model;
    EXPECT_EQ(error_of([&] { rendered(model, messages); }), "the chat template has no place for images") << model;
  }
}

/// InternVL's files have the template of a model without eyes.
TEST(ChatImages, AreWrittenForATemplateThatTakesTextsAlone) {
  const ChatTemplate chat("{% for m in messages %}<{{ m.role }}>{{ m.content | trim }}{% endfor %}");
  Conversation conversation{
      .messages = {{.role = Role::user, .content = std::vector<Part>{image, TextPart{"<I> [=] is a mark"}}},
                   text_message(Role::assistant, "yes"),
                   {.role = Role::user, .content = std::vector<Part>{TextPart{"and"}, image, image}}}};
  ChatRequest request = conversation.request();
  EXPECT_EQ(error_of([&] { static_cast<void>(chat.prompt(request)); }), "the chat template has no place for images");
  request.image_text = "<I>";
  const std::vector<ChatSegment> segments = chat.prompt(request).segments;
  EXPECT_EQ(text_of(segments), "<user><I>\n<I> [=] is a mark<assistant>yes<user>and\n<I>\n<I>");
  int written = 0;
  for (const ChatSegment& segment : segments) {
    written += segment.from_template && segment.text == "<I>" ? 1 : 0;
  }
  EXPECT_EQ(written, 3) << "the caller's own is a text";
}

TEST(ChatImages, BelongToTheUserAndToTools) {
  const std::vector<Part> parts = {TextPart{"a"}, image};
  for (const Role role : {Role::system, Role::assistant}) {
    EXPECT_EQ(error_of([&] {
                rendered("more/Qwen3.5-4B", {text_message(Role::user, "q"), {.role = role, .content = parts}});
              }),
              "messages[1].content: images may be in messages of the user and in results of tools");
  }
}

TEST(ChatImages, OfResultsMoveIntoTheUsersNextMessage) {
  const ChatTemplate chat(
      "{% for m in messages %}[{{ m.role }}:{% if m.content is string %}{{ m.content }}{% else %}"
      "{% for p in m.content %}{{ '<I>' if p.type == 'image' and m.role == 'user' else p.text }}{% endfor %}"
      "{% endif %}]{% endfor %}");
  ASSERT_TRUE(chat.abilities().images.user);
  ASSERT_FALSE(chat.abilities().images.tool);
  Conversation conversation{.messages = {text_message(Role::user, "q"), call(),
                                         result_with(std::vector<Part>{image, TextPart{"one"}}),
                                         result_with(std::vector<Part>{image}), text_message(Role::user, "well?")}};
  EXPECT_THAT(text_of(chat.prompt(conversation.request()).segments), HasSubstr("[user:<I><I>well?]"));
  conversation.messages.pop_back();
  EXPECT_THAT(text_of(chat.prompt(conversation.request()).segments), HasSubstr("[user:<I><I>]"));
  conversation.messages.push_back(text_message(Role::assistant, "so"));
  conversation.messages.push_back(text_message(Role::user, "go on"));
  EXPECT_THAT(text_of(chat.prompt(conversation.request()).segments), HasSubstr("[user:<I><I>][assistant:so][user:go on]"));
}

TEST(ChatImages, ASystemTextStandsBeforeThemWhereThereIsNoSystemRole) {
  const ChatTemplate chat(
      "{% for m in messages %}{% if m.role == 'system' %}{{ raise_exception('no') }}{% endif %}"
      "{% if m.content is string %}{{ m.content }}{% else %}"
      "{% for p in m.content %}{{ '<I>' if p.type == 'image' else p.text }}{% endfor %}{% endif %}{% endfor %}");
  Conversation conversation{.messages = {text_message(Role::system, "rules"),
                                         {.role = Role::user, .content = std::vector<Part>{image, TextPart{"q"}}}}};
  EXPECT_EQ(text_of(chat.prompt(conversation.request()).segments), "rules\n\n<I>q");
}

}  // namespace
}  // namespace rocmforge
