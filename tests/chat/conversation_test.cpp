#include "chat/conversation.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace rocmforge {
namespace {

using Json = nlohmann::ordered_json;

TEST(Conversation, PartsOfOneTextAreThatText) {
  EXPECT_EQ(content_of({}), Content(""));
  EXPECT_EQ(content_of({TextPart{"a"}}), Content("a"));
  const Content two = content_of({TextPart{"a"}, TextPart{"b"}});
  EXPECT_EQ(std::get<std::vector<Part>>(two).size(), 2u);
  EXPECT_EQ(text_of(two), "ab");
  EXPECT_EQ(text_of(Content()), "");
}

TEST(Conversation, AnImageStaysAPart) {
  const ImagePart image{.url = "data:image/png;base64,AA", .field = "messages[0].content[1].image"};
  const Content one = content_of({image});
  EXPECT_EQ(std::get<std::vector<Part>>(one), std::vector<Part>{image});
  const Content content = content_of({TextPart{"a"}, image, TextPart{"b"}});
  EXPECT_EQ(text_of(content), "ab");
  ASSERT_EQ(images_of(content).size(), 1u);
  EXPECT_EQ(*images_of(content).front(), image);
  const Message message{.role = Role::user, .content = content};
  EXPECT_EQ(json_of(message).dump(),
            R"({"role":"user","content":[{"type":"text","text":"a"},{"type":"image"},{"type":"text","text":"b"}]})");
  EXPECT_EQ(message_of_json(stored_json_of(message)).content, content);
  EXPECT_EQ((Conversation{.messages = {message, message}}.images().size()), 2u);
}

TEST(Conversation, EveryRoleHasItsName) {
  for (const Role role : {Role::system, Role::developer, Role::user, Role::assistant, Role::tool}) {
    EXPECT_EQ(role_of(name(role)), role) << name(role);
  }
  EXPECT_EQ(role_of("narrator"), std::nullopt);
}

TEST(Conversation, MessagesBecomeTheTemplatesJson) {
  Message message{.role = Role::assistant, .reasoning = "r", .others = {{"mood", "calm"}}};
  message.content = content_of({TextPart{"a"}, TextPart{"b"}});
  message.calls.push_back({.id = "1", .name = "f", .arguments = R"({"x": 1})"});
  EXPECT_EQ(
      json_of(message).dump(),
      R"({"role":"assistant","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}],"reasoning_content":"r",)"
      R"("tool_calls":[{"id":"1","type":"function","function":{"name":"f","arguments":"{\"x\": 1}"}}],"mood":"calm"})");
  const Message result{.role = Role::tool, .content = "ok", .call_id = "1", .name = "f"};
  EXPECT_EQ(json_of(result).dump(), R"({"role":"tool","tool_call_id":"1","content":"ok","name":"f"})");
  EXPECT_EQ(json_of(Message{.role = Role::user}).dump(), R"({"role":"user"})");
}

TEST(Conversation, ReadsTheJsonThatItWrites) {
  Message message{.role = Role::assistant, .content = "a", .reasoning = "r"};
  message.calls.push_back({.id = "1", .name = "f", .arguments = {{"x", 1}}});
  const Message parts{.role = Role::user, .content = std::vector<Part>{TextPart{"a"}, TextPart{"b"}}};
  const Message result{.role = Role::tool, .content = "", .call_id = "1", .name = "f"};
  for (const Message& each : {message, parts, result, Message{.role = Role::system}}) {
    EXPECT_EQ(json_of(message_of_json(json_of(each))).dump(), json_of(each).dump());
  }
}

TEST(Conversation, ReasoningBecomesVariablesThatAreNotThereYet) {
  Conversation conversation{.messages = {text_message(Role::user, "q")}};
  conversation.reasoning = {.effort = "none", .is_on = true};
  conversation.arguments = {{"thinking", "mine"}};
  const Json variables = conversation.request().arguments;
  EXPECT_EQ(variables.dump(), R"({"thinking":"mine","reasoning_effort":"none","enable_thinking":false})");
}

TEST(Conversation, TheTemplateSeesNoToolsWhereNoneMayBeCalled) {
  Conversation conversation{.messages = {text_message(Role::user, "q")}};
  EXPECT_TRUE(conversation.request().tools.is_null());
  conversation.tools.emplace();
  EXPECT_EQ(conversation.request().tools, Json::array());
  conversation.tools->push_back({.name = "f", .declaration = {{"type", "function"}}});
  EXPECT_EQ(conversation.request().tools.size(), 1u);
  conversation.selection.none = true;
  EXPECT_TRUE(conversation.request().tools.is_null());
}

TEST(Conversation, OnlyAnAnswerWithoutCallsIsContinued) {
  Conversation conversation{.messages = {text_message(Role::user, "q")}};
  EXPECT_EQ(conversation.continued_text(), "");
  conversation.messages.push_back(text_message(Role::assistant, "begun"));
  EXPECT_EQ(conversation.continued_text(), "begun");
  conversation.continue_final_message = false;
  EXPECT_EQ(conversation.continued_text(), "");
  conversation.continue_final_message = true;
  conversation.messages.back().calls.push_back({.name = "f"});
  EXPECT_FALSE(conversation.ends_with_answer());
}

}  // namespace
}  // namespace rocmforge
