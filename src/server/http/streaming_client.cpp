#include "server/http/streaming_client.h"

#include <fmt/format.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>
#include <boost/asio/buffer.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <memory>

#include "base/error.h"
#include "server/http/http_server.h"

namespace rocmforge {
namespace {

namespace http = boost::beast::http;

std::string reason() {
  const bool late = errno == EAGAIN || errno == EWOULDBLOCK || errno == EINPROGRESS;
  return late ? "no sign of life in time" : std::strerror(errno);
}

std::string host_header(const HttpOrigin& origin) {
  return is_socket_path(origin.host) ? "localhost" : fmt::format("{}:{}", origin.host, origin.port);
}

HttpAnswer head_of(const http::response<http::string_body>& response) {
  HttpAnswer head{.status = static_cast<int>(response.result_int())};
  for (const auto& field : response) {
    head.headers.emplace_back(std::string(field.name_string()), std::string(field.value()));
  }
  return head;
}

}  // namespace

HttpOrigin HttpOrigin::parse(const std::string& url) {
  constexpr std::string_view scheme = "http://";
  std::string_view rest = url;
  if (!rest.starts_with(scheme)) {
    throw Error(fmt::format("'{}' is not a URL like http://127.0.0.1:8080", url));
  }
  rest.remove_prefix(scheme.size());
  const std::size_t slash = std::min(rest.find('/'), rest.size());
  std::string_view path = rest.substr(slash);
  rest = rest.substr(0, slash);
  for (const std::string_view end : {"/", "/v1"}) {
    path.remove_suffix(path.ends_with(end) ? end.size() : 0);
  }
  const std::size_t bracket = rest.find(']');  // [::1]:8080
  const std::size_t colon = rest.find(':', bracket == std::string_view::npos ? 0 : bracket);
  std::string_view host = rest.substr(0, colon);
  if (host.starts_with('[') && host.ends_with(']')) {
    host = host.substr(1, host.size() - 2);
  }
  const std::string_view port = colon == std::string_view::npos ? "80" : rest.substr(colon + 1);
  if (host.empty() || port.empty()) {
    throw Error(fmt::format("'{}' is not a URL like http://127.0.0.1:8080", url));
  }
  return {std::string(host), std::string(port), std::string(path)};
}

void StreamingClient::close() {
  const std::lock_guard lock(mutex_);
  if (socket_ >= 0) {
    ::close(socket_);
    socket_ = -1;
  }
}

void StreamingClient::stop() {
  const std::lock_guard lock(mutex_);
  stopped_ = true;
  if (socket_ >= 0) {
    ::shutdown(socket_, SHUT_RDWR);
  }
}

// connect() may wait: the socket is known to stop() before.
bool StreamingClient::connect_to(int family, int protocol, const void* address, std::size_t size) {
  {
    const std::lock_guard lock(mutex_);
    if (stopped_) {
      throw Error("the request was stopped");
    }
    socket_ = ::socket(family, SOCK_STREAM | SOCK_CLOEXEC, protocol);
  }
  if (socket_ < 0) {
    return false;
  }
  const timeval timeout{timeout_seconds_, 0};
  const int on = 1;
  ::setsockopt(socket_, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof timeout);
  ::setsockopt(socket_, SOL_SOCKET, SO_SNDTIMEO, &timeout, sizeof timeout);
  ::setsockopt(socket_, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);  // a unix socket has no such option
  if (::connect(socket_, static_cast<const sockaddr*>(address), static_cast<socklen_t>(size)) == 0) {
    return true;
  }
  const int failure = errno;
  close();
  errno = failure;
  return false;
}

void StreamingClient::connect_to_socket() {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (origin_.host.size() >= sizeof address.sun_path) {
    throw Error(fmt::format("{}: the path is too long for a unix socket", origin_.host));
  }
  origin_.host.copy(address.sun_path, origin_.host.size());
  if (!connect_to(AF_UNIX, 0, &address, sizeof address)) {
    throw Error(fmt::format("{} can't be reached: {}", origin_.host, reason()));
  }
}

void StreamingClient::connect_to_host() {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (const int code = ::getaddrinfo(origin_.host.c_str(), origin_.port.c_str(), &hints, &found); code != 0) {
    throw Error(fmt::format("{}:{}: {}", origin_.host, origin_.port, ::gai_strerror(code)));
  }
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> addresses(found, &::freeaddrinfo);
  for (const addrinfo* address = found; address != nullptr; address = address->ai_next) {
    if (connect_to(address->ai_family, address->ai_protocol, address->ai_addr, address->ai_addrlen)) {
      return;
    }
  }
  throw Error(fmt::format("{}:{} can't be reached: {}", origin_.host, origin_.port, reason()));
}

void StreamingClient::connect() { is_socket_path(origin_.host) ? connect_to_socket() : connect_to_host(); }

void StreamingClient::send(std::string_view text) {
  while (!text.empty()) {
    const ssize_t sent = ::send(socket_, text.data(), text.size(), MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) {
      continue;
    }
    if (sent <= 0) {
      throw Error(fmt::format("sending failed: {}", reason()));
    }
    text.remove_prefix(static_cast<std::size_t>(sent));
  }
}

std::size_t StreamingClient::receive(char* to, std::size_t size) {
  for (;;) {
    const ssize_t count = ::recv(socket_, to, size, 0);
    if (count >= 0) {
      return static_cast<std::size_t>(count);
    }
    if (errno != EINTR) {
      throw Error(fmt::format("receiving failed: {}", reason()));
    }
  }
}

int StreamingClient::read_answer(const Take& take) {
  http::response_parser<http::string_body> parser;
  parser.body_limit(boost::none);
  parser.eager(true);
  std::array<char, 16384> memory{};
  std::size_t used = 0;
  HttpAnswer head;
  while (!parser.is_done()) {
    const std::size_t count = receive(memory.data() + used, memory.size() - used);
    boost::system::error_code error;
    if (count == 0) {
      if (!parser.got_some()) {
        throw Error("the connection ended before an answer");
      }
      parser.put_eof(error);
      if (error || !parser.is_done()) {
        throw Error("the connection ended in the middle of an answer");
      }
    }
    used += count;
    const std::size_t parsed = used == 0 ? 0 : parser.put(boost::asio::buffer(memory.data(), used), error);
    std::memmove(memory.data(), memory.data() + parsed, used - parsed);
    used -= parsed;
    if (error && error != http::error::need_more) {
      throw Error(fmt::format("the answer is not HTTP: {}", error.message()));
    }
    if (used == memory.size()) {
      throw Error("the answer's header is too long");
    }
    std::string& piece = parser.get().body();
    const bool head_came = parser.is_header_done() && head.status == 0;
    if (head_came) {
      head = head_of(parser.get());
    }
    if ((head_came && !take(head, {})) || (!piece.empty() && !take(head, piece))) {
      close();
      return head.status;
    }
    piece.clear();
  }
  if (!parser.keep_alive()) {
    close();
  }
  return head.status;
}

int StreamingClient::request(const HttpCall& call, const Take& take) {
  if (socket_ < 0) {
    connect();
  }
  try {
    std::string head = fmt::format("{} {}{} HTTP/1.1\r\nHost: {}\r\nContent-Length: {}\r\n", call.method, origin_.path,
                                   call.target, host_header(origin_), call.body.size());
    for (const auto& [name, value] : call.headers) {
      head += fmt::format("{}: {}\r\n", name, value);
    }
    send(head + "\r\n");
    send(call.body);
    return read_answer(take);
  } catch (...) {
    close();
    throw;
  }
}

}  // namespace rocmforge
