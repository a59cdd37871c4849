#include "server/client.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <stdexcept>
#include <utility>

namespace rocmforge {

using Clock = std::chrono::steady_clock;

std::vector<Json> HttpAnswer::events() const {
  std::vector<Json> list;
  std::size_t at = 0;
  while (at < body.size()) {
    const std::size_t end = body.find("\n\n", at);
    if (end != std::string::npos && body[at] == ':') {
      at = end + 2;
      continue;
    }
    if (end == std::string::npos || body.compare(at, 6, "data: ") != 0) {
      throw std::runtime_error("no event: " + body.substr(at, 80));
    }
    if (const std::string data = body.substr(at + 6, end - at - 6); data != "[DONE]") {
      list.push_back(Json::parse(data));
    }
    at = end + 2;
  }
  return list;
}

Connection::Connection(std::uint16_t port, const std::string& from)
    : socket_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  if (!from.empty()) {
    address.sin_addr.s_addr = inet_addr(from.c_str());
    static_cast<void>(bind(socket_, reinterpret_cast<const sockaddr*>(&address), sizeof(address)));
  }
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (connect(socket_, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) {
    ::close(socket_);
    throw std::runtime_error("cannot connect");
  }
}

Connection::~Connection() { close(); }

void Connection::close() {
  if (socket_ >= 0) {
    ::close(socket_);
    socket_ = -1;
  }
}

void Connection::receive_slowly() const {
  const int size = 4096;
  setsockopt(socket_, SOL_SOCKET, SO_RCVBUF, &size, sizeof(size));
}

bool Connection::send(std::string_view bytes) const {
  while (!bytes.empty()) {
    const ssize_t sent = ::send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent <= 0) {
      return false;
    }
    bytes.remove_prefix(static_cast<std::size_t>(sent));
  }
  return true;
}

void Connection::finish_sending() const { shutdown(socket_, SHUT_WR); }

bool Connection::receive(Clock::time_point end) {
  const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(end - Clock::now()).count();
  pollfd ready = {socket_, POLLIN, 0};
  if (ended_ || left <= 0 || poll(&ready, 1, static_cast<int>(left)) <= 0) {
    return false;
  }
  std::array<char, 65536> buffer;
  const ssize_t count = recv(socket_, buffer.data(), buffer.size(), 0);
  if (count <= 0) {
    ended_ = true;
    return false;
  }
  received_.append(buffer.data(), static_cast<std::size_t>(count));
  return true;
}

bool Connection::read_until(std::string_view text, std::chrono::milliseconds time) {
  const auto end = Clock::now() + time;
  while (received_.find(text) == std::string::npos) {
    if (!receive(end)) {
      return false;
    }
  }
  return true;
}

bool Connection::closes(std::chrono::milliseconds time) {
  const auto end = Clock::now() + time;
  const std::size_t before = received_.size();
  while (receive(end)) {
  }
  return ended_ && received_.size() == before;
}

HttpAnswer Connection::read_answer(bool head_only, std::chrono::milliseconds time) {
  const auto end = Clock::now() + time;
  HttpAnswer answer;
  if (!read_until("\r\n\r\n", time)) {
    return answer;
  }
  const std::size_t head_end = received_.find("\r\n\r\n");
  std::string head = received_.substr(0, head_end + 2);
  received_.erase(0, head_end + 4);
  answer.status = std::stoi(head.substr(9, 3));
  for (std::size_t at = head.find("\r\n") + 2; at < head.size();) {
    const std::size_t line_end = head.find("\r\n", at);
    const std::size_t colon = head.find(':', at);
    std::string name = head.substr(at, colon - at);
    for (char& c : name) {
      c = static_cast<char>(std::tolower(c));
    }
    answer.headers[name] = head.substr(colon + 2, line_end - colon - 2);
    at = line_end + 2;
  }
  const auto take = [&](std::size_t size) {
    while (received_.size() < size) {
      if (!receive(end)) {
        return false;
      }
    }
    answer.body += received_.substr(0, size);
    received_.erase(0, size);
    return true;
  };
  if (head_only) {
    answer.complete = true;
  } else if (answer.headers.contains("content-length")) {
    answer.complete = take(std::stoull(answer.headers["content-length"]));
  } else if (answer.headers.contains("transfer-encoding")) {
    for (;;) {
      if (!read_until("\r\n", std::chrono::duration_cast<std::chrono::milliseconds>(end - Clock::now()))) {
        break;
      }
      const std::size_t size = std::stoull(received_, nullptr, 16);
      received_.erase(0, received_.find("\r\n") + 2);
      if (!take(size + 2)) {
        break;
      }
      answer.body.resize(answer.body.size() - 2);
      if (size == 0) {
        answer.complete = true;
        break;
      }
    }
  } else {
    while (receive(end)) {
    }
    answer.body = std::exchange(received_, {});
    answer.complete = ended_;
  }
  return answer;
}

std::string request_text(std::string_view method, std::string_view path, std::string_view body,
                         const std::vector<std::string>& headers) {
  std::string text = std::string(method) + " " + std::string(path) + " HTTP/1.1\r\nHost: localhost\r\n";
  for (const std::string& header : headers) {
    text += header + "\r\n";
  }
  if (!body.empty() || method == "POST") {
    text += "Content-Type: application/json\r\nContent-Length: " + std::to_string(body.size()) + "\r\n";
  }
  return text + "\r\n" + std::string(body);
}

namespace {

HttpAnswer answer_to(std::uint16_t port, const std::string& request) {
  Connection connection(port);
  connection.send(request);
  return connection.read_answer();
}

}  // namespace

HttpAnswer get(std::uint16_t port, std::string_view path, const std::vector<std::string>& headers) {
  return answer_to(port, request_text("GET", path, {}, headers));
}

HttpAnswer post(std::uint16_t port, std::string_view path, const Json& body, const std::vector<std::string>& headers) {
  return post_text(port, path, body.dump(), headers);
}

HttpAnswer post_text(std::uint16_t port, std::string_view path, std::string_view body,
                     const std::vector<std::string>& headers) {
  return answer_to(port, request_text("POST", path, body, headers));
}

}  // namespace rocmforge
