#include "server/http/http_server.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <atomic>
#include <condition_variable>
#include <filesystem>
#include <memory>
#include <mutex>
#include <new>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "apps/program.h"
#include "base/error.h"
#include "server/client.h"

namespace rocmforge {
namespace {

using std::chrono::milliseconds;

/// Answers with the request's content; "/hold" keeps the reply for the test.
class HttpTest : public testing::Test {
 protected:
  void start(HttpLimits limits = {}, std::shared_ptr<RequestMemory> memory = nullptr,
             const std::string& host = "127.0.0.1") {
    HttpHandler handler;
    handler.check_head = [](const HttpRequest& request) -> std::unique_ptr<HttpResponse> {
      return request.path == "/refused" ? std::make_unique<HttpResponse>(HttpResponse{.status = 403, .body = "no"})
                                        : nullptr;
    };
    handler.handle = [this](HttpRequest request, std::shared_ptr<HttpReply> reply) {
      handled_ += request.path == "/vital" ? 0 : 1;
      handled_before_vital_ = request.path == "/vital" ? handled_.load() : handled_before_vital_.load();
      if (request.path == "/block") {
        std::unique_lock lock(mutex_);
        changed_.wait_for(lock, std::chrono::seconds(20), [&] { return !blocked_; });
      }
      if (request.path == "/hold") {
        const std::lock_guard lock(mutex_);
        held_ = std::move(reply);
        changed_.notify_all();
      } else if (request.path != "/forget") {
        reply->send({.content_type = "text/plain",
                     .body = request.method + " " + request.path + "?" + request.query + " [" + request.body + "]"});
      }
    };
    handler.error = [](int status, std::string_view message, std::string_view) {
      return HttpResponse{.status = status, .content_type = "text/plain", .body = std::string(message)};
    };
    handler.is_vital = [](const HttpRequest& request) { return request.path == "/vital"; };
    server_ = std::make_unique<HttpServer>(host, 0, limits, handler, std::move(memory));
  }

  std::shared_ptr<HttpReply> held() {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, std::chrono::seconds(10), [&] { return held_ != nullptr; });
    return std::move(held_);
  }

  [[nodiscard]] std::uint16_t port() const { return server_->port(); }
  [[nodiscard]] bool all_closed() const {
    for (int i = 0; i < 300 && server_->connections() > 0; ++i) {
      std::this_thread::sleep_for(milliseconds(10));
    }
    return server_->connections() == 0;
  }

  /// Lets the server's thread continue.
  void unblock() {
    const std::lock_guard lock(mutex_);
    blocked_ = false;
    changed_.notify_all();
  }

  std::atomic<int> handled_{0};  ///< requests but for the vital ones
  std::atomic<int> handled_before_vital_{-1};
  bool blocked_ = true;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::shared_ptr<HttpReply> held_;
  std::unique_ptr<HttpServer> server_;
};

/// Events are processed in batches: a client waits for a few requests of others, not for some with each earlier connection.
TEST_F(HttpTest, AVitalRequestBehindManyConnectionsWaitsForFewRequestsOfOthers) {
  constexpr int busy_clients = 8;
  constexpr int idle_clients = 300;
  start({.connections = 1'000, .client_share = 100});
  std::vector<std::unique_ptr<Connection>> clients;
  for (int i = 0; i < busy_clients; ++i) {
    Connection& client = *clients.emplace_back(std::make_unique<Connection>(port()));
    client.send(request_text("GET", "/first"));
    EXPECT_EQ(client.read_answer().status, 200);
  }
  Connection blocking(port());
  blocking.send(request_text("GET", "/block"));
  while (handled_ <= busy_clients) {
    std::this_thread::sleep_for(milliseconds(1));
  }
  std::string many;
  for (int i = 0; i < 400; ++i) {
    many += request_text("GET", "/many");
  }
  for (int i = 0; i < busy_clients; ++i) {
    clients[static_cast<std::size_t>(i)]->send(many);
  }
  for (int i = 0; i < idle_clients; ++i) {
    clients.push_back(std::make_unique<Connection>(port()));
  }
  Connection vital(port());
  vital.send(request_text("GET", "/vital"));
  const int before = handled_;
  unblock();
  EXPECT_EQ(vital.read_answer().status, 200);
  EXPECT_LE(handled_before_vital_ - before, 16 * busy_clients) << "it waited for each of the connections before it";
}

TEST_F(HttpTest, AConnectionThatMakesWayIsFoundWithoutALookAtTheOthers) {
  start({.connections = 50, .client_share = 100});
  std::vector<std::unique_ptr<Connection>> clients;
  for (int i = 0; i < 250; ++i) {
    Connection& client = *clients.emplace_back(std::make_unique<Connection>(port()));
    client.send(request_text("GET", "/"));
    EXPECT_EQ(client.read_answer().status, 200);
  }
  EXPECT_LE(server_->looked_at(), 2 * 200);
  EXPECT_LE(server_->connections(), 50);
}

TEST_F(HttpTest, AnswersAndKeepsTheConnection) {
  start();
  Connection connection(port());
  for (int i = 0; i < 20; ++i) {
    connection.send(request_text("POST", "/a?b=" + std::to_string(i), "body"));
    const HttpAnswer answer = connection.read_answer();
    EXPECT_EQ(answer.status, 200);
    EXPECT_EQ(answer.body, "POST /a?b=" + std::to_string(i) + " [body]");
    EXPECT_EQ(answer.headers.at("connection"), "keep-alive");
  }
  EXPECT_EQ(server_->connections(), 1);
}

TEST_F(HttpTest, AnswersPipelinedRequestsInOrder) {
  start();
  Connection connection(port());
  std::string requests;
  for (int i = 0; i < 50; ++i) {
    requests += request_text("GET", "/" + std::to_string(i));
  }
  connection.send(requests);
  for (int i = 0; i < 50; ++i) {
    EXPECT_EQ(connection.read_answer().body, "GET /" + std::to_string(i) + "? []");
  }
}

TEST_F(HttpTest, TakesARequestInSingleBytes) {
  start();
  Connection connection(port());
  for (const char c : request_text("POST", "/slow", "0123456789")) {
    connection.send({&c, 1});
  }
  EXPECT_EQ(connection.read_answer().body, "POST /slow? [0123456789]");
}

TEST_F(HttpTest, DecodesChunks) {
  start();
  Connection connection(port());
  connection.send(
      "POST /c HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2;ext=1\r\nde\r\n0\r\nTrailer: "
      "x\r\n\r\n");
  EXPECT_EQ(connection.read_answer().body, "POST /c? [abcde]");
}

TEST_F(HttpTest, SaysContinueToAClientThatWaitsForIt) {
  start();
  Connection connection(port());
  connection.send("POST /e HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n");
  EXPECT_TRUE(connection.read_until("HTTP/1.1 100 Continue\r\n\r\n"));
  connection.send("ab");
  EXPECT_TRUE(connection.read_until("POST /e? [ab]"));
}

TEST_F(HttpTest, SpeaksHttp10WithoutChunks) {
  start();
  Connection connection(port());
  connection.send("GET /hold HTTP/1.0\r\n\r\n");
  const auto reply = held();
  reply->begin({.content_type = "text/plain"});
  reply->write("one");
  reply->write("two");
  reply->end();
  const HttpAnswer answer = connection.read_answer();
  EXPECT_EQ(answer.body, "onetwo");
  EXPECT_TRUE(answer.complete);
  EXPECT_FALSE(answer.headers.contains("transfer-encoding"));
}

TEST_F(HttpTest, GivesNoBodyToHead) {
  start();
  Connection connection(port());
  connection.send(request_text("HEAD", "/h"));
  const HttpAnswer answer = connection.read_answer(true);
  EXPECT_EQ(answer.headers.at("content-length"), "11");
  connection.send(request_text("GET", "/h"));
  EXPECT_EQ(connection.read_answer().body, "GET /h? []");
}

TEST_F(HttpTest, StreamsWithinAConnectionThatGoesOn) {
  start();
  Connection connection(port());
  connection.send(request_text("GET", "/hold"));
  const auto reply = held();
  reply->begin({.content_type = "text/plain", .body = "first "});
  EXPECT_TRUE(connection.read_until("first "));
  EXPECT_TRUE(reply->write("second"));
  reply->end();
  EXPECT_FALSE(reply->write("nothing follows the end"));
  EXPECT_EQ(connection.read_answer().body, "first second");
  connection.send(request_text("GET", "/next"));
  EXPECT_EQ(connection.read_answer().body, "GET /next? []");
}

TEST_F(HttpTest, TellsWhenAClientGoesWhileItWaits) {
  start();
  Connection connection(port());
  connection.send(request_text("GET", "/hold"));
  const auto reply = held();
  std::atomic<bool> dropped = false;
  reply->on_drop([&] { dropped = true; });
  connection.close();
  for (int i = 0; i < 500 && !dropped; ++i) {
    std::this_thread::sleep_for(milliseconds(10));
  }
  EXPECT_TRUE(dropped);
  EXPECT_FALSE(reply->write("gone"));
  bool at_once = false;
  reply->on_drop([&] { at_once = true; });
  EXPECT_TRUE(at_once);
  EXPECT_TRUE(all_closed());
}

TEST_F(HttpTest, DropsAClientThatDoesNotRead) {
  start({.unread_bytes = 100'000});
  Connection connection(port());
  connection.receive_slowly();
  connection.send(request_text("GET", "/hold"));
  const auto reply = held();
  std::atomic<bool> dropped = false;
  reply->on_drop([&] { dropped = true; });
  reply->begin({.content_type = "text/plain"});
  const std::string part(10'000, 'x');
  int parts = 0;
  while (reply->write(part) && parts < 10'000) {  // never waits
    ++parts;
    std::this_thread::yield();
  }
  EXPECT_LT(parts, 10'000);
  EXPECT_TRUE(all_closed());
  for (int i = 0; i < 500 && !dropped; ++i) {  // it is told after the connection has been counted
    std::this_thread::sleep_for(milliseconds(10));
  }
  EXPECT_TRUE(dropped);
}

TEST_F(HttpTest, DropsAClientThatStopsReading) {
  start({.write_time = milliseconds(200)});
  Connection connection(port());
  connection.receive_slowly();
  connection.send(request_text("GET", "/hold"));
  const auto reply = held();
  reply->send({.content_type = "text/plain", .body = std::string(20'000'000, 'x')});
  EXPECT_TRUE(all_closed());
}

TEST_F(HttpTest, EndsAReplyThatNobodyGives) {
  start();
  EXPECT_EQ(get(port(), "/forget").status, 500);
  Connection connection(port());
  connection.send(request_text("GET", "/hold"));
  held()->begin({.content_type = "text/plain", .body = "half"});
  EXPECT_TRUE(connection.read_until("half"));
  EXPECT_FALSE(connection.closes(milliseconds(0)));
  EXPECT_TRUE(all_closed());
}

TEST_F(HttpTest, RefusesByTheHeadWithoutReadingTheBody) {
  start();
  Connection connection(port());
  connection.send("POST /refused HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n\r\n");
  EXPECT_EQ(connection.read_answer().status, 403);
  EXPECT_TRUE(connection.closes());
}

TEST_F(HttpTest, LimitsTimesAndSizes) {
  start({.head_bytes = 1000,
         .body_bytes = 100,
         .head_time = milliseconds(150),
         .body_time = milliseconds(150),
         .idle_time = milliseconds(150)});
  {
    Connection silent(port());
    EXPECT_EQ(silent.read_answer().status, 408);
    EXPECT_TRUE(silent.closes());
  }
  {
    Connection slow_head(port());
    slow_head.send("GET / HTTP/1.1\r\nHost: x\r\n");
    EXPECT_EQ(slow_head.read_answer().status, 408);
  }
  {
    Connection slow_body(port());
    slow_body.send("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\nabc");
    EXPECT_EQ(slow_body.read_answer().status, 408);
  }
  {
    Connection idle(port());
    idle.send(request_text("GET", "/"));
    EXPECT_EQ(idle.read_answer().status, 200);
    EXPECT_TRUE(idle.closes());
  }
  EXPECT_EQ(get(port(), "/", {"X: " + std::string(1000, 'a')}).status, 431);
  EXPECT_EQ(post_text(port(), "/", std::string(101, 'a')).status, 413);
  EXPECT_EQ(post_text(port(), "/", std::string(100, 'a')).status, 200);
  Connection chunks(port());
  chunks.send("POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n60\r\n" + std::string(96, 'a') +
              "\r\n60\r\n" + std::string(96, 'a') + "\r\n0\r\n\r\n");
  EXPECT_EQ(chunks.read_answer().status, 413);
  EXPECT_TRUE(all_closed());
}

TEST_F(HttpTest, LimitsConnections) {
  start({.connections = 2});
  Connection first(port());
  Connection second(port());
  first.send(request_text("GET", "/hold"));
  const auto first_reply = held();
  second.send(request_text("GET", "/hold"));
  const auto second_reply = held();
  const HttpAnswer refused = get(port(), "/3");
  EXPECT_EQ(refused.status, 503);
  EXPECT_EQ(refused.body, "too many connections");
  Connection third(port());
  third.send(request_text("GET", "/vital"));
  EXPECT_EQ(third.read_answer().status, 200) << "is answered however many there are";
  EXPECT_TRUE(third.closes());
  first_reply->send({.content_type = "text/plain", .body = "done"});
  EXPECT_EQ(first.read_answer().status, 200);
  EXPECT_EQ(get(port(), "/4").status, 200) << "the first is idle and makes way";
  EXPECT_TRUE(first.closes());
}

TEST_F(HttpTest, ClosesTheOldestIdleConnectionForANewOne) {
  start({.connections = 4, .client_share = 100});
  std::vector<std::unique_ptr<Connection>> all;
  for (int i = 0; i < 12; ++i) {  // one after the other: each has its answer, then waits
    all.push_back(std::make_unique<Connection>(port()));
    all.back()->send(request_text("GET", "/"));
    EXPECT_EQ(all.back()->read_answer().status, 200) << i;
  }
  for (std::size_t i = 0; i < 8; ++i) {
    EXPECT_TRUE(all[i]->closes()) << i;
  }
  for (std::size_t i = 8; i < 12; ++i) {
    all[i]->send(request_text("GET", "/"));
    EXPECT_EQ(all[i]->read_answer().status, 200) << i;
  }
}

TEST_F(HttpTest, SilentConnectionsKeepNobodyOut) {
  start({.connections = 16, .reserved_connections = 4});
  std::vector<std::unique_ptr<Connection>> silent;
  for (int i = 0; i < 100; ++i) {
    silent.push_back(std::make_unique<Connection>(port()));
    silent.back()->send("GET / HTTP/1.1\r\n");  // a head that does not end is not idle
  }
  EXPECT_EQ(get(port(), "/vital").status, 200);
  EXPECT_LE(server_->connections(), 16 + 4 + 1);
}

TEST_F(HttpTest, AClientHasItsShareOfTheConnections) {
  start({.connections = 8});
  std::vector<std::unique_ptr<Connection>> busy;
  std::vector<std::shared_ptr<HttpReply>> replies;
  const auto hold = [&](const std::string& from) {
    busy.push_back(std::make_unique<Connection>(port(), from));
    busy.back()->send(request_text("GET", "/hold"));
    if (auto reply = held()) {
      replies.push_back(std::move(reply));
    }
  };
  for (int i = 0; i < 7; ++i) {
    hold("127.0.0.1");
  }
  ASSERT_EQ(replies.size(), 7u) << "alone it has all but one of eight";
  EXPECT_EQ(get(port(), "/").status, 503);
  Connection other(port(), "127.0.0.2");
  other.send(request_text("GET", "/"));
  EXPECT_EQ(other.read_answer().status, 200);
}

TEST_F(HttpTest, BodiesCountAsTheyComeAndNotAsTheyPromise) {
  const auto memory = std::make_shared<RequestMemory>(100'000, 100);
  start({}, memory);
  Connection promising(port());
  promising.send("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 8000000\r\n\r\nabc");
  EXPECT_EQ(post_text(port(), "/", std::string(90'000, 'a')).status, 200);
  EXPECT_EQ(post_text(port(), "/", std::string(110'000, 'a')).status, 503);
  promising.close();
  EXPECT_TRUE(all_closed());
  EXPECT_EQ(memory->used(), 0);
}

TEST_F(HttpTest, MakesABodyAsItIsTaken) {
  start();
  Connection connection(port());
  connection.send(request_text("GET", "/hold"));
  constexpr int pieces = 4'000;  // more than sockets hold
  std::atomic<int> made = 0;
  auto kept = std::make_shared<int>(0);
  const std::weak_ptr<int> weak = kept;
  const auto more = [&made](std::string& out) {
    out += std::string(10'000, 'x');
    return ++made < pieces;
  };
  held()->send({.content_type = "text/plain", .body = "first", .more = more, .holds = std::move(kept)});
  ASSERT_TRUE(connection.read_until("first"));
  std::this_thread::sleep_for(milliseconds(100));
  EXPECT_LT(made, pieces) << "the client has not read";
  EXPECT_FALSE(weak.expired());
  const HttpAnswer answer = connection.read_answer();
  EXPECT_TRUE(answer.complete);
  EXPECT_EQ(answer.body.size(), 5u + 10'000u * pieces);
  connection.send(request_text("GET", "/next"));
  EXPECT_EQ(connection.read_answer().body, "GET /next? []");
  EXPECT_TRUE(weak.expired());
}

TEST_F(HttpTest, ABodyThatCannotBeMadeEndsTheConnection) {
  start();
  Connection connection(port());
  connection.send(request_text("GET", "/hold"));
  held()->send(
      {.content_type = "text/plain", .body = "first", .more = [](std::string&) -> bool { throw std::bad_alloc(); }});
  EXPECT_FALSE(connection.read_answer().complete);
  EXPECT_TRUE(all_closed());
  EXPECT_EQ(get(port(), "/").status, 200);
}

TEST_F(HttpTest, DrainsWhenTheRunningRequestsHaveEnded) {
  start();
  Connection idle(port());
  idle.send(request_text("GET", "/"));
  EXPECT_EQ(idle.read_answer().status, 200);
  Connection busy(port());
  busy.send(request_text("GET", "/hold"));
  const auto reply = held();
  EXPECT_FALSE(server_->drain(milliseconds(50)));
  EXPECT_TRUE(idle.closes());
  EXPECT_THROW(Connection{port()}, std::runtime_error);
  reply->send({.content_type = "text/plain", .body = "done"});
  const HttpAnswer answer = busy.read_answer();
  EXPECT_EQ(answer.body, "done");
  EXPECT_EQ(answer.headers.at("connection"), "close");
  busy.close();
  EXPECT_TRUE(server_->drain(milliseconds(5000)));
}

TEST_F(HttpTest, LetsRepliesOutliveTheServer) {
  start();
  Connection connection(port());
  connection.send(request_text("GET", "/hold"));
  const auto reply = held();
  server_.reset();
  EXPECT_FALSE(reply->write("late"));
  reply->end();
}

// RFC 9112, section 2.2.
TEST_F(HttpTest, LeavesOutAnEmptyLineBeforeARequest) {
  start();
  Connection connection(port());
  for (const char* before : {"\r\n", "", "\r\n"}) {
    connection.send(before + request_text("GET", "/a"));
    const HttpAnswer answer = connection.read_answer();
    EXPECT_EQ(answer.status, 200) << answer.body;
    EXPECT_EQ(answer.body, "GET /a? []");
  }
  Connection in_pieces(port());
  for (const char piece : "\r\n" + request_text("POST", "/b", "body") + "\r\n" + request_text("GET", "/c")) {
    in_pieces.send(std::string(1, piece));
  }
  EXPECT_EQ(in_pieces.read_answer().body, "POST /b? [body]");
  EXPECT_EQ(in_pieces.read_answer().body, "GET /c? []");
  for (const char* wrong : {"\n", "\r", " \r\n", "\r\n\r\n"}) {
    Connection other(port());
    other.send(wrong + request_text("GET", "/a"));
    EXPECT_EQ(other.read_answer().status, 400) << wrong;
  }
  Connection nothing(port());
  nothing.send("\r\n");
  nothing.finish_sending();
  EXPECT_TRUE(nothing.closes());
}

/// What a server at a unix socket answers to this request, until it closes the connection.
std::string answer_at(const std::string& path, const std::string& request) {
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  path.copy(address.sun_path, sizeof(address.sun_path) - 1);
  const int socket = ::socket(AF_UNIX, SOCK_STREAM, 0);
  std::string answer;
  if (::connect(socket, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0 &&
      ::send(socket, request.data(), request.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(request.size())) {
    char piece[1024];
    for (ssize_t size = 0; (size = ::recv(socket, piece, sizeof(piece), 0)) > 0;) {
      answer.append(piece, static_cast<std::size_t>(size));
    }
  }
  ::close(socket);
  return answer;
}

TEST_F(HttpTest, ListensAtAUnixSocket) {
  const TemporaryFolder folder;
  const std::string path = (folder.path() / "server.sock").string();
  const std::string request = request_text("GET", "/a", "", {"Connection: close"});
  for (int i = 0; i < 2; ++i) {
    start({}, nullptr, path);
    EXPECT_EQ(port(), 0);
    const std::string answer = answer_at(path, request);
    EXPECT_TRUE(answer.starts_with("HTTP/1.1 200")) << answer;
    EXPECT_TRUE(answer.ends_with("GET /a? []")) << answer;
    try {
      HttpServer second(path, 0, {}, {});
      ADD_FAILURE() << "two servers at one socket";
    } catch (const Error& error) {
      EXPECT_EQ(error.what(), "cannot listen at " + path + ": Address already in use");
    }
    EXPECT_TRUE(answer_at(path, request).starts_with("HTTP/1.1 200")) << "the second one takes nothing from the first";
    server_.reset();
    EXPECT_FALSE(std::filesystem::exists(path));
  }
  // A file that a killed server has left.
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  path.copy(address.sun_path, sizeof(address.sun_path) - 1);
  const int left = ::socket(AF_UNIX, SOCK_STREAM, 0);
  ASSERT_EQ(::bind(left, reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
  ::close(left);
  start({}, nullptr, path);
  EXPECT_TRUE(answer_at(path, request).starts_with("HTTP/1.1 200"));
  // A file of another kind is nobody's to replace.
  const std::string file = folder.write("notes.sock", "text");
  EXPECT_THROW(HttpServer(file, 0, {}, {}), Error);
  EXPECT_TRUE(std::filesystem::is_regular_file(file));
  EXPECT_THROW(HttpServer("/" + std::string(200, 'x'), 0, {}, {}), Error);
}

TEST_F(HttpTest, SaysWhyItCannotListen) {
  start();
  const auto message = [&](const std::string& host, std::uint16_t number) -> std::string {
    try {
      HttpServer second(host, number, {}, {});
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_EQ(message("127.0.0.1", port()),
            "cannot listen at 127.0.0.1:" + std::to_string(port()) + ": Address already in use");
  EXPECT_EQ(message("nowhere", 0), "'nowhere' is no address to listen at: give one such as 127.0.0.1, 0.0.0.0 or ::1");
}

}  // namespace
}  // namespace rocmforge
