// Fields that clients of other servers send, and the server's answers to them.
#include <gtest/gtest.h>

#include <algorithm>

#include "server/api/unserved_fields.h"
#include "server/client.h"
#include "server/local_server.h"
#include "server/running_server.h"

namespace rocmforge::fields_test {
namespace {

TestServerOptions options_with_template() {
  TestServerOptions options;
  options.server.chat_template =
      "{% for m in messages %}{{ m.role[0] }}:{{ m.content }}.{% endfor %}{% if add_generation_prompt %}a:>{% endif %}";
  return options;
}

const Json user = {{"role", "user"}, {"content", "q"}};

Json chat(const Json& more, const Json& messages = Json::array({user})) {
  Json request = {{"messages", messages}};
  request.update(more);
  return request;
}

std::string ignored(const HttpAnswer& answer) {
  const auto found = answer.headers.find("x-ignored-fields");
  return found == answer.headers.end() ? "" : found->second;
}

std::size_t times_in(const std::string& text, const std::string& part) {
  std::size_t count = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) {
    ++count;
  }
  return count;
}

TEST(UnknownFields, AreIgnoredAndNamed) {
  const FakeServer server(options_with_template(), say("hi"));
  const Json format = {{"type", "text"}, {"colour", "red"}};
  for (const bool stream : {false, true}) {
    const HttpAnswer answer =
        post(server.port(), "/v1/chat/completions",
             chat({{"temprature", 1}, {"response_format", format}, {"nothing", nullptr}, {"stream", stream}}));
    EXPECT_EQ(answer.status, 200) << answer.body;
    EXPECT_EQ(ignored(answer), "response_format.colour, temprature");
  }
  EXPECT_EQ(times_in(server.log(), "warning a request has the unknown field temprature, which is ignored"), 1u)
      << server.log();
  for (const char* path : {"/v1/completions", "/generate"}) {
    EXPECT_EQ(ignored(post(server.port(), path, {{"prompt", "x>"}, {"a\r\nb", 1}})), "a%0D%0Ab") << path;
  }
  EXPECT_EQ(ignored(post(server.port(), "/v1/embeddings", {{"input", "x"}, {"input_type", "query"}})), "input_type");
  EXPECT_EQ(ignored(post(server.port(), "/tokenize", {{"content", "x"}, {"oops", 1}})), "oops");
  EXPECT_EQ(ignored(post(server.port(), "/v1/completions", {{"prompt", "x>"}})), "");
}

TEST(UnknownFields, DoNotFillHeaderOrLog) {
  const FakeServer server(options_with_template(), say("hi"));
  std::string body = R"({"prompt": "x>")";
  for (int i = 0; i < 20'000; ++i) {
    body += ", \"field" + std::to_string(i) + "\": 1";
  }
  body += ", \"" + std::string(100'000, 'x') + "\": 1}";
  const HttpAnswer answer = post_text(server.port(), "/v1/completions", body);
  EXPECT_EQ(answer.status, 200);
  EXPECT_LT(ignored(answer).size(), 1100u);
  EXPECT_TRUE(ignored(answer).ends_with(", ..."));
  for (int i = 0; i < 300; ++i) {
    post(server.port(), "/v1/completions", {{"prompt", "x>"}, {"other" + std::to_string(i), 1}});
  }
  EXPECT_EQ(times_in(server.log(), "has the unknown field"), 256u);
}

TEST(UnknownFields, AreRefusedWithStrictFields) {
  TestServerOptions options = options_with_template();
  options.server.strict_fields = true;
  const LocalServer server(options, say("hi"));
  EXPECT_EQ(post(server, "/v1/chat/completions", chat(Json::object())).status, 200);
  const HttpAnswer answer = post(server, "/v1/chat/completions", chat({{"temprature", 1}}));
  EXPECT_EQ(answer.status, 400);
  EXPECT_EQ(answer.json()["error"]["param"], "temprature");
  EXPECT_EQ(post(server, "/v1/chat/completions", chat({{"return_progress", true}})).json()["error"]["param"],
            "return_progress");
  EXPECT_EQ(post(server, "/v1/chat/completions", chat({{"return_progress", false}})).status, 200);
}

TEST(UnservedFields, WithNeutralValuesAreAccepted) {
  TestServerOptions options = options_with_template();
  options.server.strict_fields = true;
  const LocalServer server(options, say("hi"));
  for (const UnservedField& field : unserved_fields()) {
    const std::string name(field.name);
    Json values = Json::parse(field.neutral);
    values.push_back(nullptr);
    for (const Json& value : values) {
      const HttpAnswer answer = post(server, "/v1/chat/completions", chat({{name, value}}));
      EXPECT_EQ(answer.status, 200) << name << ": " << value << ": " << answer.body;
    }
    const HttpAnswer answer = post(server, "/v1/chat/completions", chat({{name, {{"other", 1}}}}));
    EXPECT_EQ(answer.status, 400) << name;
    EXPECT_EQ(answer.json()["error"]["param"], name) << answer.body;
  }
}

// Requests with default settings, as the clients of OpenAI's API, vLLM and llama-server write them.
constexpr const char* usual_requests[] = {
    R"({"audio": null, "frequency_penalty": 0, "function_call": "auto", "functions": [], "logit_bias": {}, "logprobs": false,
        "max_tokens": null, "modalities": ["text"], "n": 1, "parallel_tool_calls": true, "presence_penalty": 0, "seed": null,
        "service_tier": "auto", "stop": null, "store": false, "stream": false, "stream_options": null, "temperature": 1.0,
        "tool_choice": "auto", "tools": [], "top_logprobs": 0, "top_p": 1.0, "user": ""})",
    R"({"best_of": 1, "use_beam_search": false, "top_k": -1, "min_p": 0.0, "repetition_penalty": 1.0, "length_penalty": 1.0,
        "stop_token_ids": [], "include_stop_str_in_output": false, "ignore_eos": false, "min_tokens": 0,
        "skip_special_tokens": true, "spaces_between_special_tokens": true, "truncate_prompt_tokens": null,
        "prompt_logprobs": null, "echo": false, "add_generation_prompt": true, "continue_final_message": false,
        "add_special_tokens": false, "documents": null, "chat_template": null, "include_reasoning": true,
        "guided_json": null, "return_token_ids": false, "bad_words": [], "priority": 0})",
    R"({"max_tokens": -1, "n_predict": -1, "mirostat": 0, "mirostat_tau": 5.0, "mirostat_eta": 0.1, "dry_multiplier": 0.0,
        "dry_base": 1.75, "dry_allowed_length": 2, "dry_penalty_last_n": -1, "dry_sequence_breakers": ["\n"],
        "xtc_probability": 0, "xtc_threshold": 0.1, "top_n_sigma": -1, "dynatemp_range": 0, "dynatemp_exponent": 1,
        "typical_p": 1, "repeat_last_n": 64, "repeat_penalty": 1.0, "cache_prompt": true, "id_slot": -1,
        "timings_per_token": false, "return_progress": false, "n_probs": 0, "min_keep": 0, "n_keep": 0, "lora": [],
        "post_sampling_probs": false,
        "samplers": ["penalties", "dry", "top_n_sigma", "top_k", "typ_p", "top_p", "min_p", "xtc", "temperature"]})",
};

// What SillyTavern sends to /completion for its default settings of the text completion of llama.cpp, with an array and a
// text where it sends such. Fields that other servers of it read come along.
constexpr const char* sillytavern_request = R"({
    "prompt": "x>", "model": "", "max_new_tokens": 350, "max_tokens": 350, "temperature": 0.7, "top_p": 0.5, "typical_p": 1,
    "typical": 1, "sampler_seed": -1, "min_p": 0, "repetition_penalty": 1.2, "frequency_penalty": 0, "presence_penalty": 0,
    "top_k": 40, "skew": 0, "min_tokens": 0, "length_penalty": 1, "early_stopping": false, "add_bos_token": true,
    "smoothing_factor": 0, "smoothing_curve": 1, "dry_allowed_length": 2, "dry_multiplier": 0, "dry_base": 1.75,
    "dry_sequence_breakers": ["\n", ":", "\"", "*"], "dry_penalty_last_n": 0, "max_tokens_second": 0,
    "stopping_strings": ["\nYou:"], "stop": ["\nYou:"], "truncation_length": 2048, "ban_eos_token": false,
    "skip_special_tokens": true, "include_reasoning": true, "top_a": 0, "tfs": 1, "epsilon_cutoff": 0, "eta_cutoff": 0,
    "mirostat_mode": 0, "mirostat_tau": 5, "mirostat_eta": 0.1, "custom_token_bans": "", "banned_strings": [],
    "api_type": "llamacpp", "api_server": "http://127.0.0.1:8080", "xtc_threshold": 0.1, "xtc_probability": 0, "nsigma": 0,
    "top_n_sigma": 0, "min_keep": 0, "adaptive_target": -0.01, "adaptive_decay": 0.9, "guidance_scale": 1,
    "negative_prompt": "", "grammar_string": "", "repeat_penalty": 1.2, "repeat_last_n": 0, "n_predict": 350,
    "num_predict": 350, "num_ctx": 2048, "tfs_z": 1, "mirostat": 0, "ignore_eos": false, "rep_pen": 1.2,
    "rep_pen_range": 0, "repetition_penalty_range": 0, "encoder_repetition_penalty": 1, "no_repeat_ngram_size": 0,
    "penalty_alpha": 0, "num_beams": 1, "do_sample": true, "seed": -1, "n_probs": 0, "logit_bias": [], "grammar": "",
    "cache_prompt": true, "stream": false,
    "samplers": ["penalties", "dry", "top_n_sigma", "top_k", "typ_p", "tfs_z", "typical_p", "top_p", "min_p", "xtc",
                 "temperature", "adaptive_p"]})";

TEST(UnservedFields, SillyTavernsDefaultRequestIsTakenAsItIs) {
  const LocalServer server(options_with_template(), say("hi"));
  for (const char* path : {"/completion", "/v1/completions"}) {
    const HttpAnswer answer = post(server, path, Json::parse(sillytavern_request));
    EXPECT_EQ(answer.status, 200) << path << answer.body;
    const Json body = answer.json();
    EXPECT_EQ(body.contains("content") ? body["content"] : body["choices"][0]["text"], "hi") << path;
  }
  // What its other settings turn on.
  Json request = Json::parse(sillytavern_request);
  request.update({{"mirostat", 2}, {"mirostat_mode", 2}, {"min_keep", 3}, {"dry_multiplier", 0.8}, {"min_tokens", 1}});
  EXPECT_EQ(post(server, "/completion", request).status, 200);
  request.update({{"mirostat", 0}, {"adaptive_target", 0.3}, {"dynatemp_range", 0.5}, {"logit_bias", {{5, -1.5}}}});
  EXPECT_EQ(post(server, "/completion", request).status, 200);
}

TEST(UnservedFields, OfTheUsualClientsChangeNothing) {
  const LocalServer server(options_with_template(), say("hi"));
  for (const char* text : usual_requests) {
    Json request = Json::parse(text);
    const HttpAnswer answer = post(server, "/v1/chat/completions", chat(request));
    EXPECT_EQ(answer.status, 200) << answer.body;
    EXPECT_EQ(ignored(answer), "");
    EXPECT_EQ(answer.json()["choices"][0]["message"]["content"], "hi");
    for (const char* of_chats :
         {"add_generation_prompt", "continue_final_message", "parallel_tool_calls", "tool_choice", "tools"}) {
      request.erase(of_chats);
    }
    request.update({{"prompt", "x>"}, {"suffix", ""}});
    for (const char* path : {"/v1/completions", "/generate"}) {
      const HttpAnswer completion = post(server, path, request);
      EXPECT_EQ(completion.status, 200) << path << completion.body;
      EXPECT_EQ(ignored(completion), "") << path;
    }
  }
}

TEST(UnservedFields, ThatAskForMoreInformationAreNamed) {
  const LocalServer server(options_with_template(), say("hi"));
  const HttpAnswer answer =
      post(server, "/v1/chat/completions", chat({{"return_token_ids", true}, {"return_progress", true}}));
  EXPECT_EQ(answer.status, 200);
  EXPECT_EQ(ignored(answer), "return_token_ids, return_progress");
}

TEST(MaxTokens, MinusOneIsNoLimit) {
  const LocalServer server(options_with_template(), say("some more than sixteen tokens"));
  for (const char* name : {"max_tokens", "max_completion_tokens", "n_predict"}) {
    const auto text = [&](int limit) {
      return post(server, "/v1/chat/completions", chat({{name, limit}})).json()["choices"][0]["message"]["content"];
    };
    EXPECT_EQ(text(-1), "some more than sixteen tokens") << name;
    EXPECT_EQ(text(4), "some") << name;
    const HttpAnswer none = post(server, "/v1/chat/completions", chat({{name, 0}}));
    if (name == std::string_view("n_predict")) {  // llama-server's name: 0 computes the prompt alone
      EXPECT_EQ(none.status, 200) << none.body;
    } else {
      EXPECT_EQ(none.json()["error"]["param"], name);
    }
    EXPECT_EQ(post(server, "/v1/completions", {{"prompt", "x>"}, {name, -1}}).json()["choices"][0]["text"],
              "some more than sixteen tokens");
  }
}

TEST(Paths, MayEndWithASlash) {
  const FakeServer server(options_with_template(), say("hi"));
  EXPECT_EQ(post(server.port(), "/v1/chat/completions/", chat(Json::object())).status, 200);
  EXPECT_EQ(post(server.port(), "/v1/completions//", {{"prompt", "x>"}}).status, 200);
  for (const char* path : {"/health/", "/v1/models/", "/v1/models/model/", "/", "/metrics/?x=1"}) {
    EXPECT_EQ(get(server.port(), path).status, 200) << path;
  }
  EXPECT_EQ(get(server.port(), "/v1/completions/").status, 405);
  EXPECT_EQ(get(server.port(), "/nothing/").status, 404);
  EXPECT_EQ(post(server.port(), "/cancel/gen-0/", Json::object()).json()["error"]["message"],
            "no request 'gen-0' is under way");
}

// The script continues its text after the last '>'.
TEST(Echo, PutsTheContinuedMessageBeforeTheAnswer) {
  const LocalServer server(options_with_template(), say("begin"));
  const Json begun = {{"role", "assistant"}, {"content", ">be"}, {"tool_calls", nullptr}};
  const auto whole = [&](const Json& more, const Json& messages) {
    return post(server, "/v1/chat/completions", chat(more, messages)).json()["choices"][0]["message"]["content"];
  };
  const auto streamed = [&](Json more, const Json& messages) {
    std::string text;
    more["stream"] = true;
    for (const Json& event : post(server, "/v1/chat/completions", chat(more, messages)).events()) {
      const Json& delta = event["choices"][0]["delta"];
      text += delta.contains("content") && delta["content"].is_string() ? delta["content"].get<std::string>() : "";
    }
    return text;
  };
  for (const auto& [echo, expected] : {std::pair(false, "gin"), std::pair(true, ">begin")}) {
    EXPECT_EQ(whole({{"echo", echo}}, Json::array({user, begun})), expected);
    EXPECT_EQ(streamed({{"echo", echo}}, Json::array({user, begun})), expected);
    EXPECT_EQ(whole({{"echo", echo}}, Json::array({user})), "begin") << "nothing is continued";
  }
}

TEST(SpecialTokens, MayBeLeftOut) {
  const LocalServer server({}, say("hi"));
  const auto size = [&](const char* path, const Json& more) {
    Json request = {{path == std::string("/v1/embeddings") ? "input" : "prompt", "x>"}};
    request.update(more);
    return post(server, path, request).json()["usage"]["prompt_tokens"].get<int>();
  };
  for (const char* path : {"/v1/completions", "/v1/embeddings"}) {
    EXPECT_EQ(size(path, {{"add_special_tokens", false}}), size(path, Json::object()) - 1) << path;
    EXPECT_EQ(size(path, {{"add_special_tokens", true}}), size(path, Json::object())) << path;
  }
}

}  // namespace
}  // namespace rocmforge::fields_test
