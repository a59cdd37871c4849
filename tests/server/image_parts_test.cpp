// Images in the requests of every API, to a model that sees images.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <string>
#include <vector>

#include "paths.h"
#include "server/api/content_parts.h"
#include "server/local_server.h"
#include "server/other_api.h"

namespace rocmforge {
namespace {

using testing::HasSubstr;

constexpr const char* png =
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";
const std::string png_url = std::string("data:image/png;base64,") + png;

std::shared_ptr<const Tokenizer> tokenizer_with_mark() {
  Vocabulary vocabulary = byte_tokenizer()->vocabulary();
  vocabulary.tokens.push_back("<image>");
  vocabulary.types.push_back(TokenType::control);
  vocabulary.scores.push_back(0.0f);
  return Tokenizer::create(std::move(vocabulary));
}

TestServerOptions options_that_see() {
  TestServerOptions options;
  options.tokenizer = tokenizer_with_mark();
  options.server.images = ImageInput{.placeholder = "<image>"};
  options.server.chat_template =
      "{% for m in messages %}{% if m.content is string %}{{ m.content }}{% else %}{% for p in m.content %}"
      "{{ '<image>' if p.type == 'image' else p.text }}{% endfor %}{% endif %}|{% endfor %}";
  return options;
}

std::string ignored_fields(const HttpAnswer& answer) {
  const auto found = answer.headers.find("x-ignored-fields");
  return found == answer.headers.end() ? "" : found->second;
}

/// A request that holds the URL or the base64 text of one image.
struct Case {
  std::string path;
  Json (*body)(const std::string& url, const std::string& code);
  std::string field;  ///< that holds the image
};

const std::vector<Case>& cases() {
  static const std::vector<Case> all = {
      {"/v1/chat/completions",
       [](const std::string& url, const std::string&) -> Json {
         const Json image = {{"type", "image_url"}, {"image_url", {{"url", url}, {"detail", "low"}}}};
         return {{"messages", {user({{{"type", "text"}, {"text", "q"}}, image})}}};
       },
       "messages[0].content[1].image_url"},
      {"/v1/chat/completions",
       [](const std::string& url, const std::string&) -> Json {
         return {{"messages", {user(Json::array({{{"type", "image"}, {"image", url}}}))}}};
       },
       "messages[0].content[0].image"},
      {"/v1/responses",
       [](const std::string& url, const std::string&) -> Json {
         return {
             {"input", {user({{{"type", "input_text"}, {"text", "q"}}, {{"type", "input_image"}, {"image_url", url}}})}}};
       },
       "input[0].content[1].input_image"},
      {"/v1/responses",
       [](const std::string& url, const std::string&) -> Json {
         const Json output = Json::array({{{"type", "input_image"}, {"image_url", url}}});
         return {{"input",
                  {user("q"),
                   {{"type", "function_call"}, {"call_id", "c"}, {"name", "look"}, {"arguments", "{}"}},
                   {{"type", "function_call_output"}, {"call_id", "c"}, {"output", output}}}}};
       },
       "input[2].output[0].input_image"},
      {"/v1/messages",
       [](const std::string&, const std::string& code) -> Json {
         const Json source = {{"type", "base64"}, {"media_type", "image/png"}, {"data", code}};
         return {{"max_tokens", 9},
                 {"messages", {user({{{"type", "image"}, {"source", source}}, {{"type", "text"}, {"text", "q"}}})}}};
       },
       "messages[0].content[0].image"},
      {"/v1/messages",
       [](const std::string& url, const std::string&) -> Json {
         const Json image = {{"type", "image"}, {"source", {{"type", "url"}, {"url", url}}}};
         const Json call = {{"type", "tool_use"}, {"id", "c"}, {"name", "look"}, {"input", Json::object()}};
         const Json result = {{"type", "tool_result"}, {"tool_use_id", "c"}, {"content", Json::array({image})}};
         return {{"max_tokens", 9},
                 {"messages",
                  {user("q"), {{"role", "assistant"}, {"content", Json::array({call})}}, user(Json::array({result}))}}};
       },
       "messages[2].content[0].content[0].image"},
      {"/api/chat",
       [](const std::string&, const std::string& code) -> Json {
         return {{"stream", false}, {"messages", {{{"role", "user"}, {"content", "q"}, {"images", {code}}}}}};
       },
       "messages[0].images[0]"},
      {"/api/generate",
       [](const std::string&, const std::string& code) -> Json {
         return {{"stream", false}, {"prompt", "q"}, {"images", {code}}};
       },
       "images[0]"},
  };
  return all;
}

TEST(ImageParts, EveryApiTakesThem) {
  const LocalServer server(options_that_see(), say("seen", {}, '|'));
  for (const Case& one : cases()) {
    const HttpAnswer answer = post(server, one.path, one.body(png_url, png));
    EXPECT_EQ(answer.status, 200) << one.path << answer.body;
    EXPECT_THAT(answer.body, HasSubstr("seen")) << one.path;
    EXPECT_EQ(ignored_fields(answer), "") << one.path;
  }
}

TEST(ImageParts, WhatIsNoImageIsRefusedAndItsFieldNamed) {
  const LocalServer server(options_that_see());
  for (const Case& one : cases()) {
    const HttpAnswer answer = post(server, one.path, one.body("data:image/png;base64,AAAA", "AAAA"));
    EXPECT_EQ(answer.status, 400) << one.path << answer.body;
    EXPECT_THAT(answer.body, HasSubstr(one.field + ": the image is of an unknown format")) << one.path;
  }
}

TEST(ImageParts, AddressesAndFilesNeedLeave) {
  const LocalServer server(options_that_see());
  const Case& chat = cases().front();
  EXPECT_THAT(post(server, chat.path, chat.body("https://example.org/a.png", "")).body, HasSubstr("--allow-image-urls"));
  EXPECT_THAT(post(server, chat.path, chat.body("file:///a.png", "")).body, HasSubstr("--image-folder"));
}

TEST(ImageParts, AModelThatReadsTextAloneGetsPlaceholdersAndTheirFieldsAreNamed) {
  TestServerOptions options = options_that_see();
  options.server.images.reset();
  const LocalServer server(options, say("seen", {}, '|'));
  for (const Case& one : cases()) {
    const HttpAnswer answer = post(server, one.path, one.body(png_url, png));
    EXPECT_EQ(answer.status, 200) << one.path << answer.body;
    EXPECT_EQ(ignored_fields(answer), one.field) << one.path;
  }
  options.server.strict_fields = true;
  const LocalServer strict(options);
  for (const Case& one : cases()) {
    const HttpAnswer answer = post(strict, one.path, one.body(png_url, png));
    EXPECT_EQ(answer.status, 400) << one.path;
    EXPECT_THAT(answer.body, HasSubstr(one.field)) << one.path;
  }
}

TEST(ImageParts, TheModelSaysThatItSees) {
  for (const bool sees : {true, false}) {
    TestServerOptions options = options_that_see();
    options.server.images = sees ? options.server.images : std::nullopt;
    const LocalServer server(options);
    EXPECT_EQ(get(server, "/props").json()["modalities"]["vision"], sees);
    EXPECT_EQ(get(server, "/v1/models").json()["data"][0]["capabilities"].dump(),
              sees ? R"(["completion","multimodal"])" : R"(["completion"])");
    EXPECT_EQ(post(server, "/api/show", {{"model", "model"}}).body.find("vision") != std::string::npos, sees);
  }
}

Json prompt_of(const std::string& text, const std::vector<std::string>& data) {
  return {{"prompt_string", text}, {"multimodal_data", data}};
}

TEST(ImageParts, PromptsThatAreContinuedHaveThemAtTheirMarks) {
  const LocalServer server(options_that_see(), say("seen", {}, '|'));
  const Json one = prompt_of("q<__media__>a<__media__>|", {png, png_url});
  EXPECT_EQ(get(server, "/props").json()["media_marker"], "<__media__>");
  const Json answer = post(server, "/completion", {{"prompt", one}}).json();
  EXPECT_EQ(answer["content"], "seen");
  EXPECT_EQ(answer["prompt"], "q<__media__>a<__media__>|") << "without the images";
  // Each mark is one token here, which the model's encoder would replace.
  EXPECT_EQ(answer["tokens_evaluated"],
            post(server, "/completion", {{"prompt", "q<image>a<image>|"}}).json()["tokens_evaluated"]);
  const Json list = post(server, "/completion", {{"prompt", Json::array({one, "q|"})}}).json();
  ASSERT_EQ(list.size(), 2u);
  EXPECT_EQ(list[0]["content"], "seen");
  EXPECT_EQ(list[1]["content"], "seen");
  const Json choice = post(server, "/v1/completions", {{"prompt", one}}).json()["choices"][0];
  EXPECT_EQ(choice["text"], "seen");
  EXPECT_EQ(post(server, "/completion", {{"prompt", {{"prompt_string", "<__media__>|"}}}}).json()["content"], "seen")
      << "without images a mark is text";
}

TEST(ImageParts, ImagesOfPromptsThatAreContinuedAreRefusedByTheirField) {
  const LocalServer server(options_that_see());
  for (const char* path : {"/completion", "/v1/completions"}) {
    const auto refused = [&](const Json& prompt) { return post(server, path, {{"prompt", prompt}}).body; };
    EXPECT_THAT(refused(prompt_of("q", {png})),
                HasSubstr("prompt.multimodal_data has 1 images and recordings, the text has 0 marks"));
    EXPECT_THAT(refused(Json::array({prompt_of("<__media__>", {"AAAA"})})),
                HasSubstr("prompt[0].multimodal_data[0]: the image is of an unknown format"));
    EXPECT_THAT(refused({{"multimodal_data", {png}}}), HasSubstr("prompt.prompt_string"));
    EXPECT_THAT(refused({{"prompt_string", "q"}, {"multimodal_data", {1}}}), HasSubstr("prompt.multimodal_data must be"));
    EXPECT_THAT(refused(prompt_of("<image><__media__>", {png})), HasSubstr("prompt.prompt_string holds '<image>'"));
    std::string marks;
    for (int i = 0; i < 40; ++i) {
      marks += "<__media__>";
    }
    const Json many = prompt_of(marks, std::vector<std::string>(40, png));
    EXPECT_THAT(refused(Json::array({many, many})), HasSubstr("the request has 80 images, at most 64 are read"));
  }
  TestServerOptions blind = options_that_see();
  blind.server.images.reset();
  const HttpAnswer answer = post(LocalServer(blind), "/completion", {{"prompt", prompt_of("<__media__>", {png})}});
  EXPECT_EQ(answer.status, 501) << answer.body;
  EXPECT_THAT(answer.body, HasSubstr("the model sees no images"));
}

TEST(ImageParts, AStoredResponseKeepsThem) {
  const LocalServer server(options_that_see(), say("seen", {}, '|'));
  const Case& first = cases()[2];
  const Json answer = Json::parse(post(server, first.path, first.body(png_url, png)).body);
  const HttpAnswer next = post(server, first.path, {{"previous_response_id", answer["id"]}, {"input", "and?"}});
  EXPECT_EQ(next.status, 200) << next.body;
  EXPECT_THAT(next.body, HasSubstr("seen"));
}

}  // namespace
}  // namespace rocmforge
