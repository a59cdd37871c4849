#include "server/http/http_connection.h"

#include <fmt/format.h>
#include <boost/asio/post.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/http/read.hpp>

#include <algorithm>
#include <exception>
#include <new>
#include <utility>

namespace rocmforge {

namespace http = boost::beast::http;

namespace {

constexpr std::size_t watch_bytes = 4096;
constexpr std::chrono::milliseconds linger_time{2'000};

/// The reply of one request.
class ConnectionReply final : public HttpReply {
 public:
  ConnectionReply(std::shared_ptr<HttpConnection> connection, std::uint64_t serial)
      : connection_(std::move(connection)), serial_(serial) {}
  ~ConnectionReply() override { connection_->abandon(serial_); }
  void send(HttpResponse response) override { connection_->send(serial_, std::move(response)); }
  void begin(HttpResponse head) override { connection_->begin(serial_, std::move(head)); }
  bool write(std::string_view part) override { return connection_->write(serial_, part); }
  bool write_pieces(TextPieces more) override { return connection_->write_pieces(serial_, std::move(more)); }
  void end() override { connection_->end(serial_); }
  void drop() noexcept override { connection_->drop(serial_); }
  void on_drop(std::function<void()> dropped) override { connection_->on_drop(serial_, std::move(dropped)); }

 private:
  std::shared_ptr<HttpConnection> connection_;
  std::uint64_t serial_;
};

using Peer = std::optional<boost::asio::ip::tcp::endpoint>;

/// Empty for a unix socket, and where the client has disconnected.
Peer peer_of(const HttpSocket& socket) {
  boost::system::error_code error;
  const auto peer = socket.remote_endpoint(error);
  return error ? std::nullopt : tcp_endpoint_of(peer);
}

std::string client_of(const Peer& peer) {
  return peer ? fmt::format("{}:{}", peer->address().to_string(), peer->port()) : "local";
}

/// The client that a connection counts for: an address, of IPv6 the part that one customer of a network has.
std::string account_of(const Peer& peer) {
  if (!peer) {
    return "local";
  }
  const auto address = peer->address();
  if (address.is_v4()) {
    return address.to_string();
  }
  auto bytes = address.to_v6().to_bytes();
  if (address.to_v6().is_v4_mapped()) {
    return fmt::format("{}.{}.{}.{}", bytes[12], bytes[13], bytes[14], bytes[15]);
  }
  std::fill(bytes.begin() + 8, bytes.end(), static_cast<unsigned char>(0));
  return boost::asio::ip::address_v6(bytes).to_string() + "/64";
}

}  // namespace

HttpConnection::HttpConnection(HttpSocket socket, std::shared_ptr<HttpShared> shared)
    : shared_(std::move(shared)),
      socket_(std::move(socket)),
      timer_(socket_.get_executor()),
      client_(client_of(peer_of(socket_))),
      address_(account_of(peer_of(socket_))),
      place_(shared_->places, address_),
      buffer_(std::max(buffer_bytes, shared_->limits.head_bytes)) {
  ++shared_->connections;
  Error error;
  socket_.set_option(boost::asio::ip::tcp::no_delay(true), error);  // a unix socket has no such option
}

// A reply holds its connection, even after the socket was closed.
HttpConnection::~HttpConnection() {
  if (state_ != State::closed) {
    --shared_->connections;
    shared_->reserved -= is_reserved_ ? 1 : 0;
  }
}

void HttpConnection::start() {
  siblings().emplace(idle_since_ = ++shared_->last_idle, weak_from_this());
  read_head();
}

void HttpConnection::note_idle() {
  auto node = siblings().extract(std::exchange(idle_since_, ++shared_->last_idle));
  if (!node.empty()) {
    node.key() = idle_since_;
    siblings().insert(siblings().end(), std::move(node));
  }
}

bool HttpConnection::take_place() {
  if (!place_.grow(1)) {
    return false;
  }
  if (is_reserved_) {
    shared_->placed.insert(shared_->beyond.extract(idle_since_));
    is_reserved_ = false;
    --shared_->reserved;
  }
  return true;
}

void HttpConnection::reserve() {
  is_reserved_ = true;
  ++shared_->reserved;
}

std::uint64_t HttpConnection::idle_since() const {
  const bool is_idle = state_ == State::lingering || (state_ == State::reading && nothing_came());
  return is_idle ? idle_since_ : 0;
}

// --- reading -------------------------------------------------------------------------------------------------------------

void HttpConnection::read_head() {
  state_ = State::reading;
  next_is_due_ = false;
  note_idle();
  if (buffer_.size() == 0) {
    buffer_.shrink_to_fit();
  }
  parser_.emplace();
  buffer_.watch_for_folds(true);
  parser_->header_limit(static_cast<std::uint32_t>(shared_->limits.head_bytes));
  parser_->body_limit(shared_->limits.body_bytes);
  arm(is_reserved_                          ? shared_->limits.reserved_head_time
      : !any_request_ || buffer_.size() > 0 ? shared_->limits.head_time
                                            : shared_->limits.idle_time);
  skip_empty_line();
}

// RFC 9112, section 2.2: an empty line before the request line has no meaning.
void HttpConnection::skip_empty_line() {
  static constexpr std::string_view empty_line = "\r\n";
  const std::string_view came(static_cast<const char*>(buffer_.data().data()), buffer_.size());
  if (came.size() < empty_line.size() && empty_line.starts_with(came)) {
    return socket_.async_read_some(buffer_.prepare(watch_bytes),
                                   then([](HttpConnection& self, Error error, std::size_t size) {
                                     self.buffer_.commit(size);
                                     error ? self.on_read_error(error) : self.skip_empty_line();
                                   }));
  }
  if (came.starts_with(empty_line)) {
    buffer_.consume(empty_line.size());
  }
  http::async_read_header(socket_, buffer_, *parser_, then([](HttpConnection& self, Error error, std::size_t size) {
                            const bool too_large = !error && size > self.shared_->limits.head_bytes;
                            too_large ? self.on_read_error(http::error::header_limit) : self.on_head(error);
                          }));
}

HttpRequest HttpConnection::take_head() {
  const auto& message = parser_->get();
  HttpRequest request;
  request.method = std::string(message.method_string());
  request.client = client_;
  request.account = address_;
  for (const auto& field : message) {
    request.headers.emplace_back(field.name_string(), field.value());
  }
  return request;
}

void HttpConnection::on_head(Error error) {
  if (state_ == State::closed) {
    return;
  }
  if (error) {
    return on_read_error(error);
  }
  any_request_ = true;
  buffer_.watch_for_folds(false);
  request_ = take_head();
  const auto& message = parser_->get();
  {
    const std::lock_guard lock(mutex_);
    ++serial_;
    head_only_ = request_.method == "HEAD";
    old_version_ = message.version() < 11;
  }
  closes_after_ = closes_after_ || !message.keep_alive();
  if (buffer_.has_fold()) {
    return refuse(400, "a header goes on in a second line");
  }
  if (const HeadRefusal refusal = check_head(request_, message.version(), parser_->chunked()); refusal.status != 0) {
    return refuse(refusal.status, refusal.message);
  }
  if (!split_target({message.target().data(), message.target().size()}, request_)) {
    return refuse(400, "the request's target is no path");
  }
  if (is_reserved_ && !take_place()) {
    closes_after_ = true;
    if (!parser_->is_done() || !shared_->handler.is_vital || !shared_->handler.is_vital(request_)) {
      return refuse(503, "too many connections");
    }
  }
  if (const auto refusal = shared_->handler.check_head(request_)) {
    const bool body_follows = !parser_->is_done();
    closes_after_ = closes_after_ || body_follows;
    state_ = State::answering;
    {
      const std::lock_guard lock(mutex_);
      begun_ = ended_ = false;
    }
    return send(serial_, std::move(*refusal));
  }
  if (parser_->is_done()) {
    return on_body({});
  }
  parser_->get().body().memory = std::make_shared<MemoryClaim>(shared_->memory, request_.account);
  if (request_.has_header("Expect")) {
    static constexpr std::string_view go_on = "HTTP/1.1 100 Continue\r\n\r\n";
    boost::asio::async_write(socket_, boost::asio::buffer(go_on.data(), go_on.size()),
                             then([](HttpConnection& self, Error failed, std::size_t) {
                               failed || self.state_ == State::closed ? self.close() : self.read_body();
                             }));
    return arm(shared_->limits.body_time);
  }
  read_body();
}

void HttpConnection::read_body() {
  arm(shared_->limits.body_time);
  http::async_read(socket_, buffer_, *parser_,
                   then([](HttpConnection& self, Error error, std::size_t) { self.on_body(error); }));
}

void HttpConnection::on_body(Error error) {
  if (state_ == State::closed) {  // closed since the last part
    return;
  }
  if (error) {
    return on_read_error(error);
  }
  disarm();
  request_.body = std::move(parser_->get().body().text);
  request_.memory = std::move(parser_->get().body().memory);
  parser_.reset();
  hand_over(std::move(request_));
}

void HttpConnection::hand_over(HttpRequest request) {
  state_ = State::answering;
  {
    const std::lock_guard lock(mutex_);
    begun_ = ended_ = false;
    heartbeat_ = {};
    unread_.emplace(shared_->memory, request.account);
  }
  watch();
  auto reply = std::make_shared<ConnectionReply>(shared_from_this(), serial_);
  try {
    shared_->handler.handle(std::move(request), std::move(reply));
  } catch (const std::bad_alloc&) {  // the destroyed reply has answered
  }
}

void HttpConnection::on_read_error(Error error) {
  if (state_ == State::closed) {
    return;
  }
  if (timed_out_) {
    return !nothing_came() || !any_request_ ? refuse(408, "the request took too long to arrive") : close();
  }
  if (error == boost::system::errc::not_enough_memory) {
    return refuse(503, no_memory_text(*shared_->memory));
  }
  if (error == http::error::header_limit || error == http::error::buffer_overflow) {
    return refuse(431, fmt::format("the request's head is larger than {} bytes", shared_->limits.head_bytes));
  }
  if (error == http::error::body_limit) {
    return refuse(413, fmt::format("the request's body is larger than {} bytes", shared_->limits.body_bytes));
  }
  if (error == http::error::bad_version) {
    return refuse(505, "only HTTP/1.0 and HTTP/1.1 are spoken here");
  }
  // The parser's errors have their own category; all others mean that the socket is closed.
  if (error.category() == http::make_error_code(http::error::bad_method).category() && error != http::error::end_of_stream &&
      error != http::error::partial_message) {
    return refuse(400, fmt::format("this is no HTTP request: {}", error.message()));
  }
  close();
}

void HttpConnection::refuse(int status, std::string_view message) {
  disarm();
  state_ = State::answering;
  closes_after_ = true;
  {
    const std::lock_guard lock(mutex_);
    serial_ = std::max<std::uint64_t>(serial_, 1);
    begun_ = ended_ = false;
  }
  send(serial_, shared_->handler.error(status, message, client_));
}

// --- watching for a client that leaves while it waits --------------------------------------------------------------------

// Bytes that arrive early belong to the next request and stay in the buffer. Then nothing more is read until that request is
// due, and only a failing write shows that the client has disconnected.
void HttpConnection::watch() {
  if (watching_ || buffer_.size() > 0) {
    return;
  }
  watching_ = true;
  socket_.async_read_some(buffer_.prepare(watch_bytes),
                          then([](HttpConnection& self, Error error, std::size_t size) { self.on_watched(error, size); }));
}

void HttpConnection::on_watched(Error error, std::size_t size) {
  watching_ = false;
  if (state_ == State::closed) {
    return;
  }
  if (error) {
    return close();
  }
  if (state_ == State::lingering) {
    return read_and_forget();
  }
  buffer_.commit(size);
  if (next_is_due_) {
    read_head();
  }
}

// --- the end -------------------------------------------------------------------------------------------------------------

// Closing a socket with unread bytes resets it, and the reset may overtake the answer: so the rest of a refused
// request is read and dropped for a while.
void HttpConnection::linger() {
  state_ = State::lingering;
  note_idle();
  Error ignored;
  socket_.shutdown(HttpSocket::shutdown_send, ignored);
  arm(linger_time);
  if (!watching_) {
    read_and_forget();
  }
}

void HttpConnection::read_and_forget() {
  buffer_.clear();
  socket_.async_read_some(buffer_.prepare(buffer_bytes), then([](HttpConnection& self, Error error, std::size_t) {
                            error || self.state_ == State::closed ? self.close() : self.read_and_forget();
                          }));
}

void HttpConnection::drain() {
  closes_after_ = true;
  if (state_ == State::reading && nothing_came()) {
    close();
  }
}

void HttpConnection::close() {
  if (state_ == State::closed) {
    return;
  }
  state_ = State::closed;
  siblings().erase(idle_since_);
  --shared_->connections;
  shared_->reserved -= std::exchange(is_reserved_, false) ? 1 : 0;
  place_.reset();
  disarm();
  Error ignored;
  socket_.close(ignored);
  more_ = nullptr;
  std::function<void()> dropped;
  std::list<Queued> unmade;  // both destroyed after the lock
  std::shared_ptr<void> held;
  {
    const std::lock_guard lock(mutex_);
    dropped_ = true;
    outbox_ = {};
    unread_.reset();
    std::swap(dropped, on_drop_);
    std::swap(unmade, queued_);
    std::swap(held, holds_);
  }
  if (dropped) {
    dropped();
  }
}

void HttpConnection::arm(std::chrono::milliseconds time) {
  timer_.expires_after(time);
  timer_.async_wait(then([serial = ++timer_serial_](HttpConnection& self, Error error) {
    if (!error && serial == self.timer_serial_) {
      self.on_timeout();
    }
  }));
}

void HttpConnection::disarm() {
  ++timer_serial_;
  timer_.cancel();
}

// A request that is still arriving is answered by the handler of the cancelled read; all others just end.
void HttpConnection::on_timeout() {
  if (state_ == State::reading && !next_is_due_) {
    timed_out_ = true;
    Error ignored;
    socket_.cancel(ignored);
  } else if (state_ == State::answering && !writing_) {
    beat();
  } else {
    close();
  }
}

}  // namespace rocmforge
