#include "hub/image_fetch.h"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <cstring>
#include <string>
#include <thread>

#include "error_of.h"

namespace rocmforge::hub {
namespace {

using test::error_of;
using testing::HasSubstr;

bool is_public(const char* text) {
  sockaddr_storage storage{};
  auto* four = reinterpret_cast<sockaddr_in*>(&storage);
  auto* six = reinterpret_cast<sockaddr_in6*>(&storage);
  if (inet_pton(AF_INET, text, &four->sin_addr) == 1) {
    storage.ss_family = AF_INET;
  } else {
    EXPECT_EQ(inet_pton(AF_INET6, text, &six->sin6_addr), 1) << text;
    storage.ss_family = AF_INET6;
  }
  return is_public_address(*reinterpret_cast<const sockaddr*>(&storage));
}

TEST(PublicAddress, OthersAreNone) {
  for (const char* text : {"1.1.1.1", "9.255.255.255", "11.0.0.0", "100.63.0.1", "100.128.0.1", "172.15.0.1", "172.32.0.1",
                           "192.167.0.1", "223.255.255.255", "2606:4700::1111", "2a00:1450::1", "2001:4860::8888"}) {
    EXPECT_TRUE(is_public(text)) << text;
  }
  for (const char* text :
       {"0.0.0.0",    "10.0.0.1",     "100.64.0.1",      "127.0.0.1",     "127.9.9.9",   "169.254.169.254",
        "172.16.0.1", "172.31.0.1",   "192.0.0.1",       "192.0.2.1",     "192.168.1.1", "198.18.0.1",
        "198.19.0.1", "198.51.100.1", "203.0.113.1",     "224.0.0.1",     "240.0.0.1",   "255.255.255.255",
        "::",         "::1",          "::ffff:10.0.0.1", "fe80::1",       "fc00::1",     "fd00:ec2::254",
        "ff02::1",    "2001:db8::1",  "2001::1",         "2002:a00:1::1", "64:ff9b::1",  "::ffff:8.8.8.8"}) {
    EXPECT_FALSE(is_public(text)) << text;
  }
  sockaddr other{};
  other.sa_family = AF_UNIX;
  EXPECT_FALSE(is_public_address(other));
}

/// A server on 127.0.0.1 that answers every connection with the same bytes.
class Answering {
 public:
  explicit Answering(std::string answer)
      : answer_(std::move(answer)), socket_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(bind(socket_, reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
    EXPECT_EQ(listen(socket_, 8), 0);
    socklen_t size = sizeof(address);
    getsockname(socket_, reinterpret_cast<sockaddr*>(&address), &size);
    port_ = ntohs(address.sin_port);
    thread_ = std::thread([this] { run(); });
  }
  ~Answering() {
    ends_ = true;
    thread_.join();
    close(socket_);
  }
  Answering(const Answering&) = delete;
  Answering& operator=(const Answering&) = delete;

  [[nodiscard]] std::string url() const { return "http://127.0.0.1:" + std::to_string(port_) + "/a.png"; }
  [[nodiscard]] int connections() const { return connections_; }

 private:
  void run() {
    while (!ends_) {
      pollfd waited{socket_, POLLIN, 0};
      if (poll(&waited, 1, 10) <= 0) {
        continue;
      }
      const int client = accept(socket_, nullptr, nullptr);
      ++connections_;
      std::string head;
      char byte = 0;
      while (!head.ends_with("\r\n\r\n") && read(client, &byte, 1) == 1) {
        head += byte;
      }
      EXPECT_EQ(write(client, answer_.data(), answer_.size()), static_cast<ssize_t>(answer_.size()));
      close(client);
    }
  }

  std::string answer_;
  int socket_;
  std::uint16_t port_ = 0;
  std::atomic<bool> ends_{false};
  std::atomic<int> connections_{0};
  std::thread thread_;
};

std::string answer_of(const std::string& body) {
  return "HTTP/1.1 200 OK\r\nContent-Length: " + std::to_string(body.size()) + "\r\nConnection: close\r\n\r\n" + body;
}

/// In these tests 127.0.0.1 is public, and all else is not.
bool is_the_server(const sockaddr& address) {
  sockaddr_in of_four{};
  std::memcpy(&of_four, &address, sizeof(of_four));
  return address.sa_family == AF_INET && of_four.sin_addr.s_addr == htonl(INADDR_LOOPBACK);
}
const ImageFetch as_public = {.may_reach = is_the_server};

TEST(FetchImage, GivesTheBytes) {
  const Answering server(answer_of("an image"));
  EXPECT_EQ(fetch_image(server.url(), 8, as_public), "an image");
}

TEST(FetchImage, NeverReachesPrivateAddresses) {
  const Answering server(answer_of("a secret"));
  EXPECT_THAT(error_of([&] { fetch_image(server.url(), 100); }),
              HasSubstr("it has a private address, which is not reached"));
  std::string by_name = server.url();
  by_name.replace(by_name.find("127.0.0.1"), 9, "localhost");
  EXPECT_THAT(error_of([&] { fetch_image(by_name, 100); }), HasSubstr("it has a private address, which is not reached"));
  EXPECT_EQ(server.connections(), 0);
}

TEST(FetchImage, AsksAgainWhereARedirectLeads) {
  const Answering inside(answer_of("a secret"));
  std::string target = inside.url();
  target.replace(target.find("127.0.0.1"), 9, "127.0.0.2");
  const Answering server("HTTP/1.1 302 Found\r\nLocation: " + target + "\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
  EXPECT_THAT(error_of([&] { fetch_image(server.url(), 100, as_public); }), HasSubstr("it has a private address"));
  const Answering to_file(
      "HTTP/1.1 302 Found\r\nLocation: file:///etc/passwd\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
  EXPECT_NE(error_of([&] { fetch_image(to_file.url(), 100, as_public); }), "no error");
}

TEST(FetchImage, RedirectsAndBytesAreLimited) {
  const Answering circle("HTTP/1.1 302 Found\r\nLocation: /again\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
  EXPECT_THAT(error_of([&] { fetch_image(circle.url(), 100, as_public); }), HasSubstr("more than 3 redirects"));
  EXPECT_EQ(circle.connections(), 4);
  const Answering large(answer_of(std::string(1000, 'x')));
  EXPECT_THAT(error_of([&] { fetch_image(large.url(), 999, as_public); }), HasSubstr("the image has more than 999 bytes"));
  const Answering missing("HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
  EXPECT_THAT(error_of([&] { fetch_image(missing.url(), 100, as_public); }), HasSubstr("it answers with status 404"));
  EXPECT_THAT(error_of([&] { fetch_image("http:///", 100, as_public); }), HasSubstr("is no address"));
}

}  // namespace
}  // namespace rocmforge::hub
