#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "paths.h"
#include "rocmforge/rocmforge.h"

namespace rocmforge {
namespace {

using Json = nlohmann::ordered_json;

/// Without what differs from one answer to the next: ids, moments, times, and what is computed already.
Json same_for_all(Json json) {
  if (json.is_object()) {
    for (const char* name : {"id", "created", "timings", "cached_tokens"}) {
      if (json.contains(name)) {
        json[name] = "*";
      }
    }
  }
  if (json.is_structured()) {
    for (auto& value : json) {
      value = same_for_all(std::move(value));
    }
  }
  return json;
}

int collect(const char* piece, std::size_t bytes, void* to) {
  static_cast<std::vector<std::string>*>(to)->emplace_back(piece, bytes);
  return 0;
}

std::string taken(char* text) {
  std::string copy = text != nullptr ? text : "";
  rocmforge_free(text);
  return copy;
}

/// rocmforge_chat() answers without HTTP. Its answers are those of the route, which a client of a server gets.
class ChatCall : public testing::TestWithParam<const char*> {
 protected:
  static void SetUpTestSuite() {
    const char* options[] = {"device=cpu", "threads=2", "temp=0", nullptr};
    ASSERT_EQ(rocmforge_model_load(test::source_path("models/forge-demo.gguf").c_str(), options, &model), ROCMFORGE_OK)
        << rocmforge_last_error();
  }
  static void TearDownTestSuite() { rocmforge_model_free(model); }

  /// The route's answer, or the events of its stream.
  static std::vector<std::string> of_route(const std::string& request, bool streams) {
    std::vector<std::string> parts;
    char* whole = nullptr;
    int status = 0;
    EXPECT_EQ(rocmforge_request(model, "POST", "/v1/chat/completions", request.c_str(), streams ? collect : nullptr, &parts,
                                &status, &whole),
              ROCMFORGE_OK);
    const std::string body = taken(whole);
    if (!streams || status != 200) {
      return {body};
    }
    std::string all;
    for (const std::string& part : parts) {
      all += part;
    }
    std::vector<std::string> events;
    constexpr std::string_view begin = "data: ", end = "\n\n";
    for (std::size_t at = 0, next = 0; (next = all.find(end, at)) != std::string::npos; at = next + end.size()) {
      const std::string event = all.substr(at, next - at);
      if (event.starts_with(begin) && event != "data: [DONE]") {
        events.push_back(event.substr(begin.size()));
      }
    }
    return events;
  }

  static std::vector<std::string> of_call(const std::string& request, bool streams) {
    std::vector<std::string> parts;
    char* whole = nullptr;
    if (rocmforge_chat(model, request.c_str(), nullptr, streams ? collect : nullptr, &parts, &whole) != ROCMFORGE_OK) {
      return {rocmforge_last_error()};
    }
    const std::string body = taken(whole);
    return streams ? parts : std::vector{body};
  }

  static inline rocmforge_model* model = nullptr;
};

TEST_P(ChatCall, AnswersAsTheRoute) {
  for (const bool streams : {false, true}) {
    Json request = Json::parse(GetParam());
    const std::vector<std::string> call = of_call(request.dump(), streams);
    request["stream"] = streams;
    const std::vector<std::string> route = of_route(request.dump(), streams);
    ASSERT_EQ(call.size(), route.size()) << call.front();
    for (std::size_t i = 0; i < call.size(); ++i) {
      const Json expected = Json::parse(route[i]);
      if (expected.contains("error")) {
        EXPECT_EQ(call[i], expected["error"]["message"].get<std::string>());
      } else {
        EXPECT_EQ(same_for_all(Json::parse(call[i])).dump(), same_for_all(expected).dump());
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Requests, ChatCall,
    testing::Values(
        R"({"messages": [{"role": "user", "content": "What is 127 + 458?"}]})",
        R"({"messages": [{"role": "user", "content": "Hello"}], "max_tokens": 4, "n": 2})",
        R"({"messages": [{"role": "user", "content": "2 + 3?"}], "logprobs": true, "top_logprobs": 2})",
        R"({"messages": [{"role": "user", "content": "Hi"}], "max_tokens": 3, "stream_options": {"include_usage": true}})",
        R"({"messages": [{"role": "user", "content": "Hi"}], "max_tokens": 3, "timings_per_token": true})",
        R"({"messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "I am"}], "echo": true, "max_tokens": 3})",
        R"({"messages": [{"role": "user", "content": "Hi"}], "grammar": "root ::= \"<think>so</think>well\""})",
        R"({"messages": [{"role": "user", "content": "Hi"}], "cache_salt": "s", "max_tokens": 2, "unknown": 1})",
        R"({"messages": [{"role": "user", "content": "Hi"}], "tool_choice": {"type": "function", "function": {"name": "f"}},
            "tools": [{"type": "function", "function": {"name": "f", "parameters": {"type": "object", "properties":
            {"a": {"enum": [1]}}, "required": ["a"], "additionalProperties": false}}}]})",
        R"({"messages": []})", R"({"messages": [{"role": "user", "content": "Hi"}], "temperature": "hot"})",
        R"({"messages": [{"role": "user", "content": "Hi"}], "n": 100})",
        R"({"messages": [{"role": "user", "content": "Hi"}], "audio": {"voice": "a"}})",
        R"({"messages": [{"role": "user", "content": "Hi"}], "response_format": {"type": "json_schema", "json_schema": {}}})",
        R"({"messages": [{"role": "robot", "content": "Hi"}]})"));

}  // namespace
}  // namespace rocmforge
