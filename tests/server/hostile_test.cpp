// Byte sequences that a hostile or broken client may send, each with the status and message of the answer.
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>

#include "paths.h"
#include "server/client.h"
#include "server/running_server.h"

namespace rocmforge {
namespace {

struct Hostile {
  std::string_view name;
  std::string bytes;
  int status = 400;
  std::string message;  ///< part of it
};

/// The table of answers, compared with the one in tests/golden.
class AnswerTable {
 public:
  void add(std::string_view name, const HttpAnswer& answer) {
    std::string message = answer.json()["error"].value("message", "");
    for (const std::string_view own : {"this is no HTTP request: ", "the body is not valid JSON: parse error"}) {
      if (message.starts_with(own)) {  // the rest is a library's message
        message = std::string(own.substr(0, own.find(':'))) + ": ...";
      }
    }
    for (std::size_t at = 0; (at = message.find('|', at)) != std::string::npos; at += 2) {
      message.insert(at, "\\");
    }
    text_ += "| " + std::string(name) + " | " + std::to_string(answer.status) + " | " + message + " |\n";
  }

  void expect_as_recorded(const std::string& file) const {
    const std::string path = test::test_data("golden/") + file;
    std::ifstream in(path);
    const std::string recorded(std::istreambuf_iterator<char>(in), {});
    const std::string actual = testing::TempDir() + file;
    if (recorded != text_) {
      std::ofstream(actual) << text_;
    }
    EXPECT_EQ(recorded, text_) << "if the new answers are right: cp " << actual << " " << path;
  }

 private:
  std::string text_ = "| request | status | message |\n|---|---|---|\n";
};

std::string head(const std::string& rest) { return "POST /v1/completions HTTP/1.1\r\nHost: x\r\n" + rest; }

std::string body(const std::string& json) { return request_text("POST", "/v1/completions", json); }

/// A completion request with one more member.
std::string with(const std::string& member) { return body(R"({"prompt": "a>", "max_tokens": 2, )" + member + "}"); }

std::string repeated(std::string_view text, int count) {
  std::string out;
  for (int i = 0; i < count; ++i) {
    out += text;
  }
  return out;
}

std::vector<Hostile> hostile_requests() {
  const std::string chunked = head("Transfer-Encoding: chunked\r\n\r\n");
  return {
      // Input that is not HTTP.
      {"no request", "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03 TLS\r\n\r\n", 400, "no HTTP request"},
      {"bare line feeds", "GET /health HTTP/1.1\nHost: x\n\n", 505, "HTTP/1.1"},
      {"bare line feed after a header", "GET /health HTTP/1.1\r\nHost: x\n\r\n", 400, "no HTTP request"},
      {"no version", "GET /health\r\n\r\n", 400, "no HTTP request"},
      {"version 2.0", "GET /health HTTP/2.0\r\nHost: x\r\n\r\n", 505, "HTTP/1.1"},
      {"version 9.9", "GET /health HTTP/9.9\r\nHost: x\r\n\r\n", 505, "HTTP/1.1"},
      {"control character in the target", "GET /hea\x01lth HTTP/1.1\r\nHost: x\r\n\r\n", 400, "no HTTP request"},
      {"target that is no path", "GET health HTTP/1.1\r\nHost: x\r\n\r\n", 400, "no path"},
      {"endless target", "GET /" + std::string(20'000, 'a') + " HTTP/1.1\r\nHost: x\r\n\r\n", 431, "head is larger"},
      {"endless header", head("X: " + std::string(20'000, 'a') + "\r\n\r\n"), 431, "head is larger"},
      {"many headers", head(repeated("X: y\r\n", 4000) + "\r\n"), 431, "head is larger"},
      {"NUL in a header", head(std::string("X: a\0b\r\n\r\n", 11)), 400, "no HTTP request"},
      {"header without a colon", head("Content-Length 3\r\n\r\nabc"), 400, "no HTTP request"},
      {"header without a name", head(": 3\r\n\r\nabc"), 400, "no HTTP request"},
      {"no host", "GET /health HTTP/1.1\r\n\r\n", 400, "exactly one Host"},
      {"two hosts", "GET /health HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", 400, "exactly one Host"},

      // Forms that a proxy and a server may parse differently.
      {"two lengths", head("Content-Length: 3\r\nContent-Length: 5\r\n\r\nabcde"), 400, "Content-Length"},
      {"the same length twice", head("Content-Length: 3\r\nContent-Length: 3\r\n\r\nabc"), 400, "one Content-Length"},
      {"list of lengths", head("Content-Length: 3, 5\r\n\r\nabcde"), 400, "Content-Length"},
      {"list of equal lengths", head("Content-Length: 3, 3\r\n\r\nabc"), 400, "Content-Length is no number"},
      {"length on two lines", head("Content-Length:\r\n 3\r\n\r\nabc"), 400, "second line"},
      {"coding on two lines", head("Transfer-Encoding:\r\n\tchunked\r\n\r\n0\r\n\r\n"), 400, "second line"},
      {"header on two lines", "GET /health HTTP/1.1\r\nHost: x\r\nX: a\r\n b\r\n\r\n", 400, "second line"},
      {"length and chunks", head("Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"), 400, ""},
      {"chunks and length", head("Transfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n0\r\n\r\n"), 400, ""},
      {"unknown coding", head("Transfer-Encoding: xchunked\r\n\r\n5\r\nabcde\r\n0\r\n\r\n"), 501, "chunked"},
      {"coding before chunks", head("Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n"), 501, "chunked"},
      {"coding with a tab", head("Transfer-Encoding:\tchunked\x0b\r\n\r\n0\r\n\r\n"), 400, ""},
      {"negative length", head("Content-Length: -1\r\n\r\n"), 400, "Content-Length"},
      {"length that is no number", head("Content-Length: 3x\r\n\r\nabc"), 400, "Content-Length"},
      {"length with a sign", head("Content-Length: +3\r\n\r\nabc"), 400, "Content-Length"},
      {"length beyond 64 bits", head("Content-Length: 99999999999999999999999\r\n\r\n"), 400, "Content-Length"},
      {"blank before the colon", head("Content-Length : 3\r\n\r\nabc"), 400, "no HTTP request"},
      {"chunk size that is no number", chunked + "zz\r\nabc\r\n0\r\n\r\n", 400, "chunk"},
      {"chunk size with garbage", chunked + "5zz\r\nabcde\r\n0\r\n\r\n", 400, "chunk"},
      {"negative chunk size", chunked + "-5\r\nabcde\r\n0\r\n\r\n", 400, "chunk"},
      {"chunk size beyond 64 bits", chunked + "fffffffffffffffff\r\nabc\r\n0\r\n\r\n", 400, "chunk"},
      {"chunk longer than it says", chunked + "2\r\nabcde\r\n0\r\n\r\n", 400, "chunk"},
      {"chunks in HTTP/1.0", "POST /v1/completions HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400,
       "HTTP/1.0"},
      {"compressed body", head("Content-Encoding: gzip\r\nContent-Length: 3\r\n\r\nabc"), 415, "compressed"},
      {"unknown expectation", head("Expect: 200-ok\r\nContent-Length: 3\r\n\r\nabc"), 417, "100-continue"},
      {"body of 100 MB", head("Content-Length: 100000000\r\n\r\n") + std::string(300'000, ' '), 413, "body is larger"},

      // Wrong addresses.
      {"unknown route", request_text("GET", "/v2/none"), 404, "there is no /v2/none"},
      {"path that climbs", request_text("GET", "/../../etc/passwd"), 404, "there is no"},
      {"wrong method", request_text("GET", "/v1/completions"), 405, "not for GET"},
      {"unknown method", "BREW /v1/completions HTTP/1.1\r\nHost: x\r\n\r\n", 405, "not for BREW"},
      {"page of another origin", request_text("POST", "/v1/completions", "{}", {"Origin: http://evil.example"}), 403,
       "origin"},

      // Input that is not JSON, or not the expected JSON.
      {"no body", body(""), 400, "no body"},
      {"half an object", body(R"({"prompt": "a)"), 400, "not valid JSON"},
      {"an array", body("[1]"), 400, "an object is expected"},
      {"deep nesting", body(R"({"prompt": )" + std::string(100'000, '[') + std::string(100'000, ']') + "}"), 400,
       "nested deeper"},
      {"NaN", with(R"("temperature": NaN)"), 400, "not valid JSON"},
      {"huge number", with(R"("temperature": 1e999)"), 400, "too large"},
      {"invalid UTF-8", body("{\"prompt\": \"\xff\xfe\"}"), 400, "not valid JSON"},
      {"overlong UTF-8", body("{\"prompt\": \"\xc0\xaf\"}"), 400, "not valid JSON"},
      {"half a surrogate pair", body(R"({"prompt": "\ud800"})"), 400, "not valid JSON"},
      {"control character", body("{\"prompt\": \"a\x01\"}"), 400, "not valid JSON"},

      // Wrong types and values, each named.
      {"prompt is an object", body(R"({"prompt": {}})"), 400, "prompt must be"},
      {"prompt of nothing", body(R"({"prompt": []})"), 400, "prompt is empty"},
      {"prompt of nested arrays", body(R"({"prompt": [[[1]]]})"), 400, "prompt must be"},
      {"token beyond the vocabulary", body(R"({"prompt": [1, 260]})"), 400, "prompt names a token"},
      {"token beyond 64 bits", body(R"({"prompt": [18446744073709551615]})"), 400, "prompt names a token"},
      {"negative token", body(R"({"prompt": [-1]})"), 400, "prompt names a token"},
      {"prompt longer than the context", body(R"({"prompt": ")" + std::string(300, 'a') + R"("})"), 400,
       "prompt is too long: "},
      {"temperature is a text", with(R"("temperature": "hot")"), 400, "temperature is \"hot\", must be a number"},
      {"temperature is out of range", with(R"("temperature": -1)"), 400, "temperature is -1, must be 0 to 2"},
      {"max_tokens is negative", with(R"("max_tokens": -5)"), 400, "max_tokens is -5"},
      {"max_tokens is huge", with(R"("max_tokens": 99999999999999999999)"), 400, "max_tokens is"},
      {"n is huge", with(R"("n": 1000000)"), 400, "n is 1000000, must be 1 to 128"},
      {"n times prompts", body(R"({"n": 128, "prompt": [)" + repeated("\"a\",", 99) + R"("a"]})"), 400,
       "asks for 12800 answers"},
      {"stop is a number", with(R"("stop": 5)"), 400, "stop must be"},
      {"stop is empty", with(R"("stop": [""])"), 400, "stop holds a string of 0 bytes"},
      {"stop is a thousand", with(R"("stop": [)" + repeated("\"x\",", 999) + R"("x"])"), 400, "stop holds 1000"},
      {"logit_bias names no token", with(R"("logit_bias": {"x": 1})"), 400, "logit_bias has a key 'x'"},
      {"logit_bias is out of range", with(R"("logit_bias": {"5": 1e30})"), 400, "logit_bias has a value"},
      {"stream is a text", with(R"("stream": "yes")"), 400, "stream is \"yes\", must be true or false"},
      {"seed is a fraction", with(R"("seed": 1.5)"), 400, "seed is 1.5, must be an integer"},
      {"grammar that repeats without bound", with(R"~("grammar": "root ::= (((\"a\"{1000}){1000}){1000}){1000}")~"), 400,
       "grammar:"},
      {"grammar that recurses to the left", with(R"~("grammar": "root ::= root \"a\"")~"), 400, "grammar:"},
  };
}

/// Requests to a server with a key and short timeouts, also with unknown fields.
std::vector<Hostile> impatient_requests() {
  const std::string key = "Authorization: Bearer right\r\n";
  return {
      {"no key", body("{}"), 401, "key is missing or wrong"},
      {"wrong key", request_text("POST", "/v1/completions", "{}", {"Authorization: Bearer wrong"}), 401, "key is missing"},
      {"half of the key", request_text("POST", "/v1/completions", "{}", {"X-Api-Key: rig"}), 401, "key is missing"},
      {"key of another scheme", request_text("POST", "/v1/completions", "{}", {"Authorization: Basic right"}), 401,
       "key is"},
      {"unknown field",
       request_text("POST", "/v1/completions", R"({"prompt": "a>", "temprature": 1})", {"X-Api-Key: right"}), 400,
       "'temprature' is not a field"},
      {"nothing for too long", "", 408, "too long to arrive"},
      {"half a head", "POST /v1/completions HTTP/1.1\r\nHost: x\r\nX: ", 408, "too long to arrive"},
      {"half a body", head(key + "Content-Length: 10\r\n\r\n{"), 408, "too long to arrive"},
      {"half a chunk", head(key + "Transfer-Encoding: chunked\r\n\r\n5\r\nab"), 408, "too long to arrive"},
      {"endless chunks", head(key + "Transfer-Encoding: chunked\r\n\r\n") + repeated("4\r\nabcd\r\n", 20'000), 413,
       "body is larger than 65536 bytes"},
  };
}

HttpAnswer expect_refused(const FakeServer& server, const Hostile& request) {
  SCOPED_TRACE(request.name);
  Connection connection(server.port());
  connection.send(request.bytes);
  HttpAnswer answer = connection.read_answer();
  EXPECT_EQ(answer.status, request.status);
  EXPECT_TRUE(answer.complete);
  EXPECT_EQ(answer.headers.count("x-request-id"), 1u);
  if (!Json::accept(answer.body)) {
    ADD_FAILURE() << answer.body;
    answer.body = "{\"error\":{}}";
  }
  const Json error = answer.json()["error"];
  for (const char* key : {"message", "type", "param", "code"}) {
    EXPECT_TRUE(error.contains(key)) << key;
  }
  EXPECT_NE(error.value("message", "").find(request.message), std::string::npos) << error.dump();
  EXPECT_LT(error.value("message", "").size(), 500u) << "a message repeats no long input";
  return answer;
}

class HostileTest : public testing::Test {
 protected:
  static void SetUpTestSuite() { server = new FakeServer({}, say("hello")); }
  static void TearDownTestSuite() { delete server; }
  static FakeServer* server;
};

FakeServer* HostileTest::server = nullptr;

TEST_F(HostileTest, EachGetsItsStatusAndMessage) {
  const std::vector<Hostile> requests = hostile_requests();
  EXPECT_GE(requests.size(), 40u);
  AnswerTable table;
  for (const Hostile& request : requests) {
    table.add(request.name, expect_refused(*server, request));
  }
  table.expect_as_recorded("hostile_requests.md");
  EXPECT_TRUE(server->becomes_idle());
  EXPECT_EQ(post(server->port(), "/v1/completions", {{"prompt", "x>"}}).json()["choices"][0]["text"], "hello");
}

TEST(Hostile, StrangersAndSlowOnesGetTheirStatusAndMessage) {
  TestServerOptions options;
  options.server.keys = {"right"};
  options.server.strict_fields = true;
  options.server.http.head_time = std::chrono::seconds(1);
  options.server.http.body_time = std::chrono::milliseconds(300);
  options.server.http.body_bytes = 65'536;
  const FakeServer server(options, say("hello"));
  AnswerTable table;
  for (const Hostile& request : impatient_requests()) {
    table.add(request.name, expect_refused(server, request));
  }
  table.expect_as_recorded("hostile_strangers.md");
}

// DNS rebinding: a page whose host name was changed to resolve to this machine sends that name, and no foreign origin.
TEST(Hostile, NamesThatSomebodyGaveThisMachineAreRefused) {
  TestServerOptions options;
  options.server.hosts = {};
  const FakeServer server(options, say("hello"));
  const std::string evil = "Host: evil.example\r\n";
  for (const char* path : {"/", "/slots", "/v1/models"}) {
    expect_refused(server, {path, "GET " + std::string(path) + " HTTP/1.1\r\n" + evil + "\r\n", 403, "evil.example"});
  }
  const std::string port = std::to_string(server.port());
  Connection connection(server.port());
  connection.send("GET /slots HTTP/1.1\r\nHost: localhost:" + port + "\r\nOrigin: http://localhost:" + port + "\r\n\r\n");
  EXPECT_EQ(connection.read_answer().status, 200);
}

TEST_F(HostileTest, NothingIsReadBehindARefusedBody) {
  for (const char* lengths : {"Transfer-Encoding: xchunked\r\n", "Content-Length: 3\r\nContent-Length: 3\r\n",
                              "Content-Length: 3\r\nTransfer-Encoding: chunked\r\n"}) {
    Connection connection(server->port());
    connection.send(head(std::string(lengths) + "\r\nabc") + request_text("GET", "/health"));
    EXPECT_GE(connection.read_answer().status, 400);
    EXPECT_TRUE(connection.closes()) << "the rest may not become a request: " << connection.received();
  }
}

TEST_F(HostileTest, EveryCutOfARequestIsSurvived) {
  const std::string request = body(R"({"prompt": "x>", "stream": true, "max_tokens": 3})");
  for (std::size_t size = 0; size < request.size(); size += 3) {
    Connection connection(server->port());
    connection.send(request.substr(0, size));
    connection.close();
  }
  EXPECT_TRUE(server->becomes_idle());
}

TEST_F(HostileTest, LogLinesCannotBeForged) {
  Connection connection(server->port());
  connection.send("GET /a%0a\"forged\"?x HTTP/1.1\r\nHost: x\r\n\r\n");
  EXPECT_EQ(connection.read_answer().status, 404);
  EXPECT_NE(server->log().find(R"(path="/a%0a\"forged\"")"), std::string::npos) << server->log();
}

}  // namespace
}  // namespace rocmforge
