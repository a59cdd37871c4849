#include "server/router.h"

#include <gtest/gtest.h>

#include <string>

#include "server/local_server.h"

namespace rocmforge {
namespace {

Router sample_router() {
  return Router({{.method = "GET", .path = "/"},
                 {.method = "POST", .path = "/v1/things"},
                 {.method = "GET", .path = "/v1/things/{id}"},
                 {.method = "DELETE", .path = "/v1/things/{id}"},
                 {.method = "POST", .path = "/models/{model}:generate"},
                 {.method = "POST", .path = "/models/{model}:count"}});
}

/// "GET /v1/things/{id} [part]", "405" or "404".
std::string found(std::string_view method, std::string_view path) {
  const Router router = sample_router();
  const Router::Found found = router.find(method, path);
  if (found.route == nullptr) {
    return found.path_known ? "405" : "404";
  }
  std::string text(found.route->method);
  text += " " + found.route->path;
  return found.part.empty() ? text : text + " [" + std::string(found.part) + "]";
}

TEST(Router, MatchesWholePaths) {
  EXPECT_EQ(found("GET", "/"), "GET /");
  EXPECT_EQ(found("POST", "/v1/things"), "POST /v1/things");
  EXPECT_EQ(found("POST", "/v1/things2"), "404");
  EXPECT_EQ(found("POST", "/v1"), "404");
  EXPECT_EQ(found("GET", "/v1/things"), "405");
}

TEST(Router, SlashesAtTheEndDoNotCount) {
  EXPECT_EQ(found("POST", "/v1/things/"), "POST /v1/things");
  EXPECT_EQ(found("GET", "//"), "GET /");
  EXPECT_EQ(found("GET", "/v1/things/7//"), "GET /v1/things/{id} [7]");
}

TEST(Router, ServesHeadAsGet) {
  EXPECT_EQ(found("HEAD", "/v1/things/7"), "GET /v1/things/{id} [7]");
  EXPECT_EQ(found("HEAD", "/v1/things"), "405");
}

TEST(Router, BracesStandForAnyText) {
  EXPECT_EQ(found("DELETE", "/v1/things/a/b"), "DELETE /v1/things/{id} [a/b]");
  EXPECT_EQ(found("POST", "/models/org/small:generate"), "POST /models/{model}:generate [org/small]");
  EXPECT_EQ(found("POST", "/models/a:b:count"), "POST /models/{model}:count [a:b]");
  EXPECT_EQ(found("POST", "/models/:count"), "404");
  EXPECT_EQ(found("POST", "/models/x"), "404");
}

TEST(LocalClient, RefusesInTheFormOfTheRoutesApi) {
  const LocalServer local;
  const std::string bad = R"({"messages": 5, "max_tokens": 4})";
  const HttpAnswer anthropic = local.request("POST", "/v1/messages", bad);
  EXPECT_EQ(anthropic.status, 400);
  EXPECT_EQ(anthropic.body,
            R"({"type":"error","error":{"type":"invalid_request_error","message":"messages is 5, must be an array"}})");
  const HttpAnswer ollama = local.request("POST", "/api/chat", bad);
  EXPECT_EQ(ollama.body, R"({"error":"messages is 5, must be an array"})");
  const HttpAnswer openai = local.request("POST", "/v1/chat/completions", bad);
  EXPECT_EQ(Json::parse(openai.body)["error"]["param"], "messages");
}

TEST(LocalClient, FindsRoutesAsTheServerDoes) {
  const LocalServer local;
  EXPECT_EQ(local.request("GET", "/v1/models/").status, 200);
  EXPECT_EQ(local.request("GET", "/v1/models/model").status, 200);
  EXPECT_EQ(local.request("GET", "/v1/models/mod%65l?x=1").status, 200);
  EXPECT_EQ(local.request("GET", "v1/models").status, 400);
  const HttpAnswer head = local.request("HEAD", "/health");
  EXPECT_EQ(head.status, 200);
  EXPECT_EQ(head.body, "");
  EXPECT_EQ(local.request("PUT", "/v1/models").status, 405);
  EXPECT_EQ(local.request("GET", "/nothing").status, 404);
}

}  // namespace
}  // namespace rocmforge
