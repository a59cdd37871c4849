// Bodies and parts of streams that are made as a client takes them.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "server/client.h"
#include "server/http/http.h"
#include "server/http/http_server.h"

namespace rocmforge {
namespace {

TEST(HttpRequest, AParameterIsTheDecodedValueOfTheFirstOfItsName) {
  const HttpRequest request{
      .method = "GET", .path = "/", .query = "longmodel=a&model&model=b%2Fc+d&&model=e&empty=&mo%64el=f"};
  EXPECT_EQ(request.parameter("model"), "b/c+d");
  EXPECT_EQ(request.parameter("empty"), "");
  EXPECT_EQ(request.parameter("mod"), std::nullopt);
  EXPECT_EQ((HttpRequest{.method = "GET", .path = "/"}.parameter("model")), std::nullopt);
}

/// Answers "done"; "/hold" gives its reply to the test.
class HttpPiecesTest : public testing::Test {
 protected:
  void start(HttpLimits limits = {}) {
    HttpHandler handler;
    handler.check_head = [](const HttpRequest&) { return nullptr; };
    handler.handle = [this](const HttpRequest& request, std::shared_ptr<HttpReply> reply) {
      request.path == "/hold" ? held_.set_value(std::move(reply))
                              : reply->send({.content_type = "text/plain", .body = "done"});
    };
    handler.error = [](int status, std::string_view message, std::string_view) {
      return HttpResponse{.status = status, .content_type = "text/plain", .body = std::string(message)};
    };
    server_ = std::make_unique<HttpServer>("127.0.0.1", 0, limits, handler);
  }

  std::shared_ptr<HttpReply> held() { return held_.get_future().get(); }
  [[nodiscard]] std::uint16_t port() const { return server_->port(); }

 private:
  std::promise<std::shared_ptr<HttpReply>> held_;
  std::unique_ptr<HttpServer> server_;
};

TEST_F(HttpPiecesTest, OthersAreServedWhileABodyIsMadeHoweverManyPiecesAreEmpty) {
  start();
  Connection connection(port());
  connection.send(request_text("GET", "/hold"));
  const auto reply = held();
  constexpr int many = 20'000'000;  // the body ends at last, and so does the test
  int made = 0;
  std::atomic<bool> others_served = false;
  reply->send({.content_type = "text/plain", .body = "first", .more = [&](std::string& out) {
                 const bool goes_on = !others_served && ++made < many;
                 out += goes_on ? "" : " last";
                 return goes_on;
               }});
  EXPECT_EQ(get(port(), "/").status, 200);
  others_served = true;
  EXPECT_EQ(connection.read_answer().body, "first last");
  EXPECT_LT(made, many) << "the other request has waited for the body";
}

TEST_F(HttpPiecesTest, PiecesStandInAStreamWhereTheyWereWritten) {
  start({.unread_bytes = 100'000});
  Connection connection(port());
  connection.send(request_text("GET", "/hold"));
  const auto reply = held();
  const auto pieces = [](char of, int count) {
    return [of, left = count](std::string& out) mutable {
      out += std::string(10'000, of);
      return --left > 0;
    };
  };
  reply->begin({.content_type = "text/plain"});
  EXPECT_TRUE(reply->write("1"));
  EXPECT_TRUE(reply->write_pieces(pieces('a', 100)));
  EXPECT_TRUE(reply->write_pieces(pieces('b', 1)));
  EXPECT_TRUE(reply->write("2"));
  EXPECT_TRUE(reply->write_pieces(pieces('c', 100))) << "pieces that nobody has made yet are not unread";
  EXPECT_TRUE(reply->write("3"));
  reply->end();
  EXPECT_FALSE(reply->write_pieces(pieces('d', 1)));
  const HttpAnswer answer = connection.read_answer();
  EXPECT_TRUE(answer.complete);
  EXPECT_TRUE(answer.body ==
              "1" + std::string(1'000'000, 'a') + std::string(10'000, 'b') + "2" + std::string(1'000'000, 'c') + "3");
  connection.send(request_text("GET", "/next"));
  EXPECT_EQ(connection.read_answer().body, "done");
}

}  // namespace
}  // namespace rocmforge
