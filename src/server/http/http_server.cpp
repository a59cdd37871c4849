#include "server/http/http_server.h"

#include <fmt/format.h>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/post.hpp>

#include <filesystem>
#include <iterator>
#include <new>
#include <thread>
#include <utility>

#include "server/http/http_connection.h"
#include "server/http/http_socket.h"
#include "server/http/post_slot.h"

namespace rocmforge {

namespace asio = boost::asio;

class HttpServer::Implementation {
 public:
  Implementation(const std::string& host, std::uint16_t port, HttpLimits limits, HttpHandler handler,
                 std::shared_ptr<RequestMemory> memory)
      : shared_(std::make_shared<HttpShared>()),
        acceptor_(listen_at(shared_->context, host, port)),
        retry_(shared_->context),
        socket_path_(is_socket_path(host) ? host : "") {
    shared_->limits = limits;
    shared_->handler = std::move(handler);
    shared_->memory = std::move(memory);
    shared_->places = std::make_shared<FairShares>(limits.connections, limits.client_share);
    const auto endpoint = tcp_endpoint_of(acceptor_.local_endpoint());
    port_ = endpoint ? endpoint->port() : std::uint16_t{0};
    accept();
    thread_ = std::jthread([shared = shared_, work = asio::make_work_guard(shared_->context)] {
      run(*shared, [](asio::io_context& context) { context.run(); });
    });
  }

  // Handlers posted after the thread's end hold their connections, which hold the context with the handlers.
  ~Implementation() {
    stop();
    shared_->context.restart();
    run(*shared_, [](asio::io_context& context) { context.poll(); });
  }

  void stop() {
    if (!thread_.joinable()) {
      return;
    }
    asio::post(shared_->context, SlotHandler(end_slot_, [this] {
                 stop_accepting();
                 for_each([](const auto& connection) { connection->close(); });
                 // Handle what closing has cancelled first.
                 asio::post(shared_->context, SlotHandler(end_slot_, [this] { shared_->context.stop(); }));
               }));
    thread_.join();
  }

  [[nodiscard]] std::uint16_t port() const { return port_; }
  [[nodiscard]] std::int32_t connections() const { return shared_->connections; }
  [[nodiscard]] std::int64_t looked_at() const { return shared_->looked_at; }

  bool drain(std::chrono::milliseconds limit, const std::function<bool()>& hurry) {
    const auto end = std::chrono::steady_clock::now() + limit;
    asio::post(shared_->context, SlotHandler(end_slot_, [this] {
                 stop_accepting();
                 for_each([](const auto& connection) { connection->drain(); });
               }));
    while (shared_->connections > 0) {
      if (std::chrono::steady_clock::now() >= end || (hurry && hurry())) {
        return false;
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    return true;
  }

 private:
  // Accept all waiting connections together: with one at a time, each would wait for the work of all others.
  void accept() {
    acceptor_.async_wait(HttpAcceptor::wait_read, SlotHandler(accept_slot_, [this](boost::system::error_code error) {
                           if (acceptor_.is_open()) {
                             !error&& take_connections() ? accept() : retry();
                           }
                         }));
  }

  /// False if accepting failed, most likely for lack of file descriptors: then accepting is retried a little later.
  bool take_connections() {
    for (int i = 0; i < most_at_once; ++i) {
      try {
        boost::system::error_code error;
        HttpSocket socket = acceptor_.accept(error);
        if (error) {
          return error == asio::error::would_block || error == asio::error::try_again ||
                 error == asio::error::connection_aborted;
        }
        add(std::move(socket));
      } catch (const std::bad_alloc&) {  // this connection ends; others wait
      }
    }
    return true;
  }

  void retry() {
    retry_.expires_after(std::chrono::milliseconds(50));
    retry_.async_wait(SlotHandler(accept_slot_, [this](boost::system::error_code stopped) { stopped ? void() : accept(); }));
  }

  /// A handler that runs out of memory ends its connection; the others go on.
  template <class Run>
  static void run(HttpShared& shared, const Run& run_context) {
    for (;;) {
      try {
        run_context(shared.context);
        return;
      } catch (const std::bad_alloc&) {  // no memory for a log line
      }
    }
  }

  void add(HttpSocket socket) {
    auto connection = std::make_shared<HttpConnection>(std::move(socket), shared_);
    if (!connection->take_place()) {
      const FairShares& places = *shared_->places;
      const bool all_taken = places.used() >= places.open();
      close_first(shared_->placed, [&](const HttpConnection& other) {
        return other.idle_since() != 0 && (all_taken || other.address() == connection->address());
      });
      if (!connection->take_place()) {
        connection->reserve();
        make_reserved_room();
      }
    }
    if (connection->is_reserved() && shared_->reserved > shared_->limits.reserved_connections) {
      return connection->close();
    }
    connection->start();
  }

  /// A silent connection must not keep others out of the reserved places.
  void make_reserved_room() {
    if (shared_->reserved > shared_->limits.reserved_connections) {
      close_first(shared_->beyond, [](const HttpConnection& other) { return other.may_make_way(); });
    }
  }

  /// Closes the connection that became idle first, of those that `fits` accepts.
  template <class Fits>
  void close_first(HttpShared::ByIdle& connections, const Fits& fits) {
    for (auto place = connections.begin(); place != connections.end(); ++shared_->looked_at) {
      const auto connection = place->second.lock();
      if (connection != nullptr && fits(*connection)) {
        return connection->close();
      }
      place = connection == nullptr ? connections.erase(place) : std::next(place);
    }
  }

  void stop_accepting() {
    boost::system::error_code ignored;
    acceptor_.close(ignored);
    retry_.cancel();
    if (const std::string path = std::exchange(socket_path_, ""); !path.empty()) {
      std::error_code none;
      std::filesystem::remove(path, none);
    }
  }

  /// `function` may close the connection that it gets.
  template <class Function>
  void for_each(Function&& function) {
    for (HttpShared::ByIdle* connections : {&shared_->placed, &shared_->beyond}) {
      for (auto next = connections->begin(); next != connections->end();) {
        const auto connection = (next++)->second.lock();
        if (connection != nullptr) {
          function(connection);
        }
      }
    }
  }

  static constexpr int most_at_once = 64;

  std::shared_ptr<HttpShared> shared_;
  HttpAcceptor acceptor_;
  asio::steady_timer retry_;
  std::string socket_path_;  ///< of a unix socket; "" once its file is removed
  PostSlot accept_slot_, end_slot_;
  std::uint16_t port_ = 0;
  std::jthread thread_;
};

HttpServer::HttpServer(const std::string& host, std::uint16_t port, HttpLimits limits, HttpHandler handler,
                       std::shared_ptr<RequestMemory> memory)
    : implementation_(std::make_unique<Implementation>(host, port, limits, std::move(handler), std::move(memory))) {}

HttpServer::~HttpServer() = default;

void HttpServer::stop() { implementation_->stop(); }

std::uint16_t HttpServer::port() const { return implementation_->port(); }
std::int32_t HttpServer::connections() const { return implementation_->connections(); }
std::int64_t HttpServer::looked_at() const { return implementation_->looked_at(); }
bool HttpServer::drain(std::chrono::milliseconds limit, const std::function<bool()>& hurry) {
  return implementation_->drain(limit, hurry);
}

}  // namespace rocmforge
