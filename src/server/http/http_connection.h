#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http/parser.hpp>

#include <algorithm>
#include <atomic>
#include <exception>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "server/http/counted_body.h"
#include "server/http/http.h"
#include "server/http/http_head.h"
#include "server/http/http_server.h"
#include "server/http/http_socket.h"
#include "server/http/post_slot.h"
#include "service/fair_shares.h"
#include "service/request_memory.h"

namespace rocmforge {

class HttpConnection;

/// The state that the connections of a server share. Each connection holds it, so that a reply may outlive the server.
struct HttpShared {
  HttpLimits limits;
  HttpHandler handler;
  std::shared_ptr<FairShares> places;  ///< connections, by address
  std::shared_ptr<RequestMemory> memory;
  boost::asio::io_context context{1};
  std::atomic<std::int32_t> connections{0};
  std::atomic<std::int32_t> reserved{0};  ///< connections in use beyond the limit
  // Only the server's thread uses these. Open connections, by the time at which each became idle.
  using ByIdle = std::map<std::uint64_t, std::weak_ptr<HttpConnection>>;
  std::uint64_t last_idle = 0;
  ByIdle placed;                           ///< those within the limit
  ByIdle beyond;                           ///< those beyond the limit
  std::atomic<std::int64_t> looked_at{0};  ///< connections examined to find one to close
};

/// Bytes that have arrived. Detects header fields that continue on another line: the parser joins the lines, but a proxy in
/// front may have read them in another way.
class HeadBuffer : public boost::beast::flat_buffer {
 public:
  using Buffer = boost::beast::flat_buffer;
  using Buffer::Buffer;

  void watch_for_folds(bool watch) {
    watches_ = watch;
    has_fold_ = has_fold_ && !watch;
  }
  [[nodiscard]] bool has_fold() const { return has_fold_; }

  /// Called as the parser consumes bytes: a field with all of its lines at once.
  void consume(std::size_t size) {
    const std::string_view taken(static_cast<const char*>(data().data()), std::min(size, data().size()));
    has_fold_ = has_fold_ || (watches_ && (taken.find("\n ") != taken.npos || taken.find("\n\t") != taken.npos));
    Buffer::consume(size);
  }

 private:
  bool watches_ = false;
  bool has_fold_ = false;
};

/// One client connection: reads a request, passes it on, writes the answer, and repeats. All functions run on the server's
/// thread, except those marked otherwise.
class HttpConnection : public std::enable_shared_from_this<HttpConnection> {
 public:
  using Error = boost::system::error_code;

  HttpConnection(HttpSocket socket, std::shared_ptr<HttpShared> shared);
  ~HttpConnection();
  HttpConnection(const HttpConnection&) = delete;
  HttpConnection& operator=(const HttpConnection&) = delete;

  /// Starts reading. Closes the connection if there is no memory.
  void start();
  /// Takes a place for this client's connection, if one is free.
  bool take_place();
  /// Beyond the limit: answers one vital request, then closes.
  void reserve();
  [[nodiscard]] bool is_reserved() const { return is_reserved_; }
  /// A number that grows with each connection that becomes idle; 0 while a request is read or answered.
  [[nodiscard]] std::uint64_t idle_since() const;
  [[nodiscard]] std::uint64_t last_idle() const { return idle_since_; }
  /// Whether closing it loses no request: it is idle, or its request's head has not arrived.
  [[nodiscard]] bool may_make_way() const { return state_ == State::reading || state_ == State::lingering; }
  /// "127.0.0.1", "2001:db8:1:2::/64"
  [[nodiscard]] const std::string& address() const { return address_; }
  /// Accepts no further request after the running one; closes at once without one.
  void drain();
  /// Closes the connection; calls a running request's on_drop.
  void close();

  // Any thread may call these: the reply to request number `serial`.
  void send(std::uint64_t serial, HttpResponse response);
  void begin(std::uint64_t serial, HttpResponse head);
  bool write(std::uint64_t serial, std::string_view part);
  bool write_pieces(std::uint64_t serial, TextPieces more);
  void end(std::uint64_t serial);
  void on_drop(std::uint64_t serial, std::function<void()> dropped);
  /// The reply was destroyed without an answer: sends a 500, or closes the connection if an answer had begun.
  void abandon(std::uint64_t serial) noexcept;
  /// Closes the connection of this request. Allocates nothing.
  void drop(std::uint64_t serial) noexcept;

 private:
  /// Wraps the handler of an asynchronous operation. If the handler runs out of memory, or the operation does and never
  /// calls it, the connection is closed.
  template <class Function>
  class Continuation {
   public:
    Continuation(std::shared_ptr<HttpConnection> connection, Function function)
        : connection_(std::move(connection)), function_(std::move(function)) {}
    Continuation(Continuation&&) = default;
    Continuation& operator=(Continuation&&) = default;
    Continuation(const Continuation&) = delete;
    Continuation& operator=(const Continuation&) = delete;
    ~Continuation() {
      if (connection_ != nullptr) {
        connection_->close();
      }
    }

    template <class... Results>
    void operator()(Results... results) {
      const std::shared_ptr<HttpConnection> self = std::move(connection_);
      try {
        function_(*self, results...);
      } catch (const std::exception&) {  // no memory, not even for a log line
        self->close();
      }
    }

   private:
    std::shared_ptr<HttpConnection> connection_;
    Function function_;
  };
  /// `function` gets the connection and the operation's results.
  template <class Function>
  Continuation<Function> then(Function function) {
    return {shared_from_this(), std::move(function)};
  }
  void post_close();
  /// Marks the connection as idle.
  void note_idle();
  [[nodiscard]] HttpShared::ByIdle& siblings() { return is_reserved_ ? shared_->beyond : shared_->placed; }

  enum class State { reading, answering, lingering, closed };
  /// Bytes read at a time. Small: while hundreds of clients send bodies, one piece of each is read in turn.
  static constexpr std::size_t buffer_bytes = std::size_t{16} << 10;
  using Parser = boost::beast::http::request_parser<CountedBody>;

  void read_head();
  void skip_empty_line();
  void on_head(Error error);
  void read_body();
  void on_body(Error error);
  void on_read_error(Error error);
  /// Answers with an error and reads no further.
  void refuse(int status, std::string_view message);
  [[nodiscard]] bool nothing_came() const { return buffer_.size() == 0 && (!parser_ || !parser_->got_some()); }
  HttpRequest take_head();
  void hand_over(HttpRequest request);

  void watch();
  void on_watched(Error error, std::size_t size);

  [[nodiscard]] std::string head_text(const HttpResponse& response, bool streamed) const;
  bool append(std::uint64_t serial, std::string_view bytes, bool last, bool limited);
  void schedule_flush();
  void flush();
  /// Takes the text that is to be written next, or else the pieces. False when there is nothing.
  bool take_next();
  /// Makes text that is written next. False when there is none yet, or the connection had to be closed.
  bool make_piece();
  void write_some();
  void on_written(Error error, std::size_t size);
  void on_answered();
  void give_up(std::uint64_t serial);
  /// Writes the stream's heartbeat, if it has one.
  void beat();
  void linger();
  void read_and_forget();

  void arm(std::chrono::milliseconds time);
  void disarm();
  void on_timeout();

  std::shared_ptr<HttpShared> shared_;  // first: it must outlive the socket
  HttpSocket socket_;
  boost::asio::steady_timer timer_;
  std::string client_;
  std::string address_;
  Claim place_;
  bool is_reserved_ = false;
  std::uint64_t idle_since_ = 0;

  State state_ = State::reading;
  bool any_request_ = false;  ///< a request has been read
  HeadBuffer buffer_;
  std::optional<Parser> parser_;
  HttpRequest request_;  ///< its head is kept while the body is read
  std::string written_;  ///< text being written, from offset_ on
  std::size_t offset_ = 0;
  TextPieces more_;  ///< makes text that is written before the outbox
  std::uint64_t timer_serial_ = 0;
  bool timed_out_ = false;
  bool watching_ = false;     ///< a read that detects that the client disconnects is pending
  bool next_is_due_ = false;  ///< read the next request as soon as that read ends
  bool writing_ = false;
  std::atomic<bool> closes_after_{false};  ///< close after the running request

  PostSlot flush_slot_, close_slot_;

  std::mutex mutex_;  // guards the members below
  std::uint64_t serial_ = 0;
  /// Pieces behind the outbox, and the text behind them.
  struct Queued {
    TextPieces pieces;
    std::string behind{};
  };
  std::string outbox_;
  std::list<Queued> queued_;
  std::size_t queued_bytes_ = 0;       ///< of text in queued_
  std::optional<MemoryClaim> unread_;  ///< counts a stream's unread text
  std::string_view heartbeat_;         ///< of the stream that has begun
  std::shared_ptr<void> holds_;        ///< kept until the answer has been taken
  bool flush_scheduled_ = false;       ///< has been posted and has not run
  bool head_only_ = false;             ///< a HEAD request: no body
  bool old_version_ = false;           ///< HTTP/1.0: no chunks
  bool begun_ = false;
  bool ended_ = true;
  bool dropped_ = false;
  std::function<void()> on_drop_;
};

}  // namespace rocmforge
