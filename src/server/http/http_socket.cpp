#include "server/http/http_socket.h"

#include <fmt/format.h>
#include <boost/asio/ip/address.hpp>
#include <boost/asio/local/stream_protocol.hpp>

#include <cstring>
#include <filesystem>

#include "base/error.h"
#include "server/http/http_server.h"

namespace rocmforge {

namespace asio = boost::asio;
using asio::ip::tcp;
using asio::local::stream_protocol;

namespace {

/// Whether the path is a socket at which nobody listens any more.
bool is_left_behind(asio::io_context& context, const std::string& path) {
  std::error_code none;
  if (!std::filesystem::is_socket(path, none)) {
    return false;
  }
  stream_protocol::socket probe(context);
  boost::system::error_code error;
  probe.connect(stream_protocol::endpoint(path), error);
  return error == asio::error::connection_refused;
}

HttpSocket::endpoint_type endpoint_of(asio::io_context& context, const std::string& host, std::uint16_t port) {
  boost::system::error_code error;
  if (is_socket_path(host)) {
    constexpr std::size_t longest = 107;  // sockaddr_un's, without the end
    if (host.size() > longest) {
      throw Error(fmt::format("the path of a unix socket has {} bytes, at most {}: {}", host.size(), longest, host));
    }
    if (is_left_behind(context, host)) {
      std::error_code none;
      std::filesystem::remove(host, none);
    }
    return stream_protocol::endpoint(host);
  }
  const auto address = asio::ip::make_address(host == "localhost" ? "127.0.0.1" : host, error);
  if (error) {
    throw Error(fmt::format("'{}' is no address to listen at: give one such as 127.0.0.1, 0.0.0.0 or ::1", host));
  }
  return tcp::endpoint(address, port);
}

}  // namespace

bool is_socket_path(std::string_view host) { return host.find('/') != std::string_view::npos || host.ends_with(".sock"); }

std::optional<tcp::endpoint> tcp_endpoint_of(const HttpSocket::endpoint_type& endpoint) {
  tcp::endpoint found;
  const int family = endpoint.protocol().family();
  if ((family != AF_INET && family != AF_INET6) || endpoint.size() > found.capacity()) {
    return std::nullopt;
  }
  std::memcpy(found.data(), endpoint.data(), endpoint.size());
  found.resize(endpoint.size());
  return found;
}

HttpAcceptor listen_at(asio::io_context& context, const std::string& host, std::uint16_t port) {
  const HttpSocket::endpoint_type endpoint = endpoint_of(context, host, port);
  HttpAcceptor acceptor(context);
  acceptor.open(endpoint.protocol());
  boost::system::error_code error;
  acceptor.set_option(asio::socket_base::reuse_address(true), error);
  acceptor.bind(endpoint, error);
  if (!error) {
    acceptor.non_blocking(true);
    acceptor.listen(asio::socket_base::max_listen_connections, error);
  }
  if (error) {
    throw Error(fmt::format("cannot listen at {}: {}", is_socket_path(host) ? host : fmt::format("{}:{}", host, port),
                            error.message()));
  }
  return acceptor;
}

}  // namespace rocmforge
