#pragma once

#include <boost/asio/generic/stream_protocol.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace rocmforge {

// Sockets of TCP and of the machine's own files (unix sockets) as one kind.
using HttpSocket = boost::asio::generic::stream_protocol::socket;
using HttpAcceptor = boost::asio::basic_socket_acceptor<boost::asio::generic::stream_protocol>;

/// Empty for an endpoint that is not of TCP.
std::optional<boost::asio::ip::tcp::endpoint> tcp_endpoint_of(const HttpSocket::endpoint_type& endpoint);

/// Listens at an address and a port (0: a free one), or at the path of a unix socket, whose file it makes. A file that an
/// ended server has left there is replaced. Throws Error.
HttpAcceptor listen_at(boost::asio::io_context& context, const std::string& host, std::uint16_t port);

}  // namespace rocmforge
