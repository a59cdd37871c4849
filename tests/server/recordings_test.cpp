// Recordings in the APIs of a server whose model hears them, beside the same request to the model itself.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include "engine/engine.h"
#include "paths.h"
#include "server/client.h"
#include "server/local_server.h"
#include "server/running_server.h"
#include "server/server.h"

namespace rocmforge {
namespace {

using testing::HasSubstr;

std::string recording_file(const std::string& name) {
  std::ifstream in(test::test_data("golden/audio/" + name), std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

std::string in_base64(const std::string& bytes) {
  constexpr const char* digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    std::uint32_t group = 0;
    for (std::size_t j = 0; j < 3; ++j) {
      group = group << 8 | (i + j < bytes.size() ? static_cast<std::uint8_t>(bytes[i + j]) : 0U);
    }
    for (std::size_t j = 0; j < 4; ++j) {
      text += i + j > bytes.size() ? '=' : digits[group >> (18 - 6 * j) & 63];
    }
  }
  return text;
}

using Form = std::vector<std::pair<std::string, std::string>>;

class Recordings : public testing::Test {
 protected:
  void SetUp() override {
    ServerOptions options = TestServerOptions().server;
    options.log.file = folder_.write("log", "");
    options.model_id = "ear";
    EngineOptions engine;
    engine.device = "cpu";
    engine.threads = 2;
    engine.context_length = 512;
    engine.kv_tokens = 2048;
    engine.max_sequences = options.parallel;
    engine.mmproj = test::test_data("golden/models/audio/mmproj-qwen2a.gguf");
    server_ = std::make_unique<Server>(options);
    server_->serve(load_model(test::test_data("golden/models/audio/qwen2vl-chat.gguf"), engine));
  }

  [[nodiscard]] HttpAnswer ask(const std::string& path, const Json& body) const { return post(server_->port(), path, body); }
  [[nodiscard]] HttpAnswer transcribe(const Form& form) const { return transcribe(server_->port(), form); }
  static HttpAnswer transcribe(std::uint16_t port, const Form& form) {
    std::string body;
    for (const auto& [name, content] : form) {
      body += "--edge\r\nContent-Disposition: form-data; name=\"" + name + "\"" +
              (name == "file" ? "; filename=\"a.wav\"" : "") + "\r\n\r\n" + content + "\r\n";
    }
    return post_text(port, "/v1/audio/transcriptions", body + "--edge--\r\n",
                     {"Content-Type: multipart/form-data; boundary=edge"});
  }
  /// What chat completions answer to a recording and the question of a transcript.
  [[nodiscard]] Json chat(const std::string& name, const std::string& question) const {
    const Json part = {{"type", "input_audio"},
                       {"input_audio", {{"data", in_base64(recording_file(name))}, {"format", "wav"}}}};
    const HttpAnswer answer =
        ask("/v1/chat/completions", {{"messages", {user({part, text(question)})}}, {"temperature", 0}, {"max_tokens", 12}});
    EXPECT_EQ(answer.status, 200) << answer.body;
    return answer.json();
  }
  static Json text(const std::string& text) { return {{"type", "text"}, {"text", text}}; }
  static Json user(const Json& content) { return {{"role", "user"}, {"content", content}}; }

  static constexpr const char* question = "Transcribe the recording word for word. Write nothing but the transcript.";

  TemporaryFolder folder_;
  std::unique_ptr<Server> server_;
};

TEST_F(Recordings, OfEachApiAreHeard) {
  const Json heard = chat("pcm16.wav", "what");
  const std::string content = heard["choices"][0]["message"]["content"];
  EXPECT_NE(content, "");
  const std::string data = in_base64(recording_file("pcm16.wav"));
  const Json input = {{"type", "input_audio"}, {"input_audio", {{"data", data}, {"format", "wav"}}}};
  const HttpAnswer response = ask("/v1/responses", {{"input", {user({input, {{"type", "input_text"}, {"text", "what"}}})}},
                                                    {"temperature", 0},
                                                    {"max_output_tokens", 12}});
  EXPECT_EQ(response.json()["output"][0]["content"][0]["text"], content) << response.body;
  const HttpAnswer by_url =
      ask("/v1/chat/completions",
          {{"messages",
            {user({{{"type", "audio_url"}, {"audio_url", {{"url", "data:audio/wav;base64," + data}}}}, text("what")})}},
           {"temperature", 0},
           {"max_tokens", 12}});
  EXPECT_EQ(by_url.json()["choices"][0]["message"]["content"], content) << by_url.body;
  // The template writes nothing but the marks and the texts.
  const HttpAnswer raw = ask("/completion", {{"prompt", {{"prompt_string", "<__media__>what"}, {"multimodal_data", {data}}}},
                                             {"temperature", 0},
                                             {"n_predict", 12}});
  EXPECT_EQ(raw.json()["content"], content) << raw.body;
}

TEST_F(Recordings, OneThatCannotBeReadNamesItsField) {
  const auto refused = [&](const std::string& data) {
    const Json part = {{"type", "input_audio"}, {"input_audio", {{"data", data}, {"format", "wav"}}}};
    const HttpAnswer answer = ask("/v1/chat/completions", {{"messages", {user({part, text("q")})}}});
    EXPECT_EQ(answer.status, 400) << answer.body;
    EXPECT_EQ(answer.json()["error"]["param"], "messages[0].content[0].input_audio");
    return answer.body;
  };
  EXPECT_THAT(refused("AAAA"), HasSubstr("the recording is of an unknown format"));
  EXPECT_THAT(refused("!"), HasSubstr("the base64 text is broken"));
  EXPECT_THAT(refused(in_base64(recording_file("nan.wav"))), HasSubstr("it has samples that are no numbers"));
  const HttpAnswer raw = ask("/completion", {{"prompt", {{"prompt_string", "<__media__>"}, {"multimodal_data", {"AAAA"}}}}});
  EXPECT_EQ(raw.status, 501);
  EXPECT_THAT(raw.body, HasSubstr("prompt.multimodal_data[0]: the model sees no images"));
}

TEST_F(Recordings, TheServerSaysThatItHears) {
  const Json props = get(server_->port(), "/props").json();
  EXPECT_EQ(props["modalities"], Json({{"vision", false}, {"audio", true}}));
  EXPECT_THAT(get(server_->port(), "/v1/models").body, HasSubstr("\"multimodal\""));
}

TEST_F(Recordings, ATranscriptIsWhatTheModelAnswers) {
  const Json asked = chat("pcm16.wav", question);
  const std::string content = asked["choices"][0]["message"]["content"];
  const HttpAnswer answer = transcribe({{"file", recording_file("pcm16.wav")}, {"model", "ear"}, {"max_tokens", "12"}});
  ASSERT_EQ(answer.status, 200) << answer.body;
  EXPECT_EQ(answer.json()["text"], content);
  EXPECT_EQ(answer.json()["usage"]["input_tokens"], asked["usage"]["prompt_tokens"]);
  EXPECT_EQ(answer.json()["usage"]["output_tokens"], asked["usage"]["completion_tokens"]);

  const HttpAnswer plain =
      transcribe({{"max_tokens", "12"}, {"file", recording_file("pcm16.wav")}, {"response_format", "text"}});
  EXPECT_EQ(plain.body, content + "\n");
  EXPECT_EQ(plain.headers.at("content-type"), "text/plain; charset=utf-8");

  const Json more =
      transcribe({{"file", recording_file("pcm16.wav")}, {"max_tokens", "12"}, {"response_format", "verbose_json"}}).json();
  EXPECT_EQ(more["text"], content);
  EXPECT_EQ(more["task"], "transcribe");
  EXPECT_NEAR(more["duration"].get<double>(), 0.15, 1e-6);
}

TEST_F(Recordings, ATranscriptIsAskedForWithTheLanguageAndThePrompt) {
  const std::string full = std::string(question) + " Its language is de. What is known about it: 12";
  const std::string content = chat("opus.ogg", full)["choices"][0]["message"]["content"];
  const Form form = {{"file", recording_file("opus.ogg")},
                     {"language", "de"},
                     {"prompt", "12"},
                     {"max_tokens", "12"},
                     {"temperature", "0"}};
  EXPECT_EQ(transcribe(form).json()["text"], content);

  Form streamed = form;
  streamed.emplace_back("stream", "true");
  const std::vector<Json> events = transcribe(streamed).events();
  std::string pieces;
  for (const Json& event : events) {
    pieces += event["type"] == "transcript.text.delta" ? event["delta"].get<std::string>() : "";
  }
  EXPECT_EQ(pieces, content);
  EXPECT_EQ(events.back()["type"], "transcript.text.done");
  EXPECT_EQ(events.back()["text"], content);
}

TEST_F(Recordings, WrongFormsAreRefusedByTheirField) {
  const auto refused = [&](Form form, const std::string& field) {
    const HttpAnswer answer = transcribe(std::move(form));
    EXPECT_EQ(answer.status, 400) << answer.body;
    EXPECT_EQ(answer.json()["error"]["param"], field) << answer.body;
    return answer.json()["error"]["message"].get<std::string>();
  };
  const std::pair<std::string, std::string> sound = {"file", recording_file("pcm16.wav")};
  EXPECT_EQ(refused({{"model", "ear"}}, "file"), "file is missing");
  EXPECT_EQ(refused({sound, sound}, "file"), "file is given twice");
  EXPECT_THAT(refused({{"file", "no sound"}}, "file"), HasSubstr("file: the recording is of an unknown format"));
  EXPECT_THAT(refused({sound, {"response_format", "srt"}}, "response_format"), HasSubstr("response_format"));
  EXPECT_THAT(refused({sound, {"temperature", "warm"}}, "temperature"), HasSubstr("temperature"));
  EXPECT_THAT(refused({sound, {"language", "d3"}}, "language"), HasSubstr("a language's code or name"));
  EXPECT_THAT(refused({sound, {"prompt", "\xff"}}, "prompt"), HasSubstr("is not in UTF-8"));
  EXPECT_THAT(refused({sound, {"timestamp_granularities[]", "word"}}, "timestamp_granularities"),
              HasSubstr("the model tells no times"));
  EXPECT_THAT(refused({sound, {"temperature", "0"}, {"temperature[]", "1"}}, "temperature"), HasSubstr("temperature"));
  EXPECT_EQ(ask("/v1/audio/transcriptions", {{"file", "a"}}).status, 400);
  const HttpAnswer answer = transcribe({sound, {"max_tokens", "2"}, {"other", "1"}});
  EXPECT_EQ(answer.status, 200);
  EXPECT_EQ(answer.headers.at("x-ignored-fields"), "other");
}

TEST(DeafServer, RefusesATranscriptAndShowsAPlaceholder) {
  TestServerOptions options;
  options.server.chat_template = "{% for m in messages %}{{ m.content }}>{% endfor %}";
  const FakeServer server(options, say("ok"));
  const std::string body = "--edge\r\nContent-Disposition: form-data; name=\"file\"\r\n\r\nRIFF\r\n--edge--\r\n";
  const HttpAnswer answer =
      post_text(server.port(), "/v1/audio/transcriptions", body, {"Content-Type: multipart/form-data; boundary=edge"});
  EXPECT_EQ(answer.status, 501) << answer.body;
  EXPECT_THAT(answer.body, HasSubstr("the model reads text alone and can't hear recordings"));
  const Json part = {{"type", "input_audio"}, {"input_audio", {{"data", "AAAA"}, {"format", "wav"}}}};
  const HttpAnswer shown =
      post(server, "/v1/chat/completions", {{"messages", {{{"role", "user"}, {"content", {part}}}}}, {"max_tokens", 8}});
  EXPECT_EQ(shown.status, 200) << shown.body;
  EXPECT_EQ(shown.headers.at("x-ignored-fields"), "messages[0].content[0].input_audio");
}

}  // namespace
}  // namespace rocmforge
