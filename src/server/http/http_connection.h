#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http/parser.hpp>

#include <algorithm>
#include <atomic>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "server/fair_shares.h"
#include "server/http/counted_body.h"
#include "server/http/http.h"
#include "server/http/http_head.h"
#include "server/http/http_server.h"
#include "server/http/post_slot.h"
#include "server/request_memory.h"

namespace rocmforge {

class HttpConnection;

/// What the connections of a server share. Each holds it, so that whoever still holds a reply may outlive the server.
struct HttpShared {
  HttpLimits limits;
  HttpHandler handler;
  std::shared_ptr<FairShares> places;  ///< connections, by address
  std::shared_ptr<RequestMemory> memory;
  boost::asio::io_context context{1};
  std::atomic<std::int32_t> connections{0};
  std::atomic<std::int32_t> reserved{0};  ///< of these beyond the limit
  // The server's thread alone. Connections that are open, by the number of the time when each became idle last.
  using ByIdle = std::map<std::uint64_t, std::weak_ptr<HttpConnection>>;
  std::uint64_t last_idle = 0;
  ByIdle placed;                           ///< those with a place
  ByIdle beyond;                           ///< those beyond the limit
  std::atomic<std::int64_t> looked_at{0};  ///< to find one that is closed for another
};

/// Bytes that have come. Notices header fields that go on behind a line's end: the parser joins their lines, a proxy in
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

  /// As the parser takes its bytes: a field with all of its lines at once.
  void consume(std::size_t size) {
    const std::string_view taken(static_cast<const char*>(data().data()), std::min(size, data().size()));
    has_fold_ = has_fold_ || (watches_ && (taken.find("\n ") != taken.npos || taken.find("\n\t") != taken.npos));
    Buffer::consume(size);
  }

 private:
  bool watches_ = false;
  bool has_fold_ = false;
};

/// One client: reads a request, hands it on, writes what comes back, and so on until either side has enough. Everything but
/// the functions marked so runs on the server's thread.
class HttpConnection : public std::enable_shared_from_this<HttpConnection> {
 public:
  using Error = boost::system::error_code;

  HttpConnection(boost::asio::ip::tcp::socket socket, std::shared_ptr<HttpShared> shared);
  ~HttpConnection();
  HttpConnection(const HttpConnection&) = delete;
  HttpConnection& operator=(const HttpConnection&) = delete;

  /// Begins to read. Without memory it closes.
  void start();
  /// One of the places for connections, if one is free for this client.
  bool take_place();
  /// Beyond the limit: only a vital request is answered, and it is the last.
  void reserve();
  [[nodiscard]] bool is_reserved() const { return is_reserved_; }
  /// Grows from one idle connection to the next that becomes so; 0 while a request is read or answered.
  [[nodiscard]] std::uint64_t idle_since() const;
  [[nodiscard]] std::uint64_t last_idle() const { return idle_since_; }
  /// Nothing would be lost that has been answered: it is idle, or its request's head has not come.
  [[nodiscard]] bool may_make_way() const { return state_ == State::reading || state_ == State::lingering; }
  /// "127.0.0.1", "2001:db8:1:2::/64"
  [[nodiscard]] const std::string& address() const { return address_; }
  /// No further request after the running one; closes at once when there is none.
  void drain();
  /// Gives the client up; a running request's on_drop is called.
  void close();

  // Any thread: the way back of request number `serial`.
  void send(std::uint64_t serial, HttpResponse response);
  void begin(std::uint64_t serial, HttpResponse head);
  bool write(std::uint64_t serial, std::string_view part);
  void end(std::uint64_t serial);
  void on_drop(std::uint64_t serial, std::function<void()> dropped);
  /// Nobody will answer any more: a 500, or the end of the connection when an answer had begun.
  void abandon(std::uint64_t serial) noexcept;
  /// Closes the connection of this request, and takes no memory for it.
  void drop(std::uint64_t serial) noexcept;

 private:
  /// What follows an operation of this connection. Where it finds no memory the connection ends, and so where the operation
  /// itself has found none and never calls it.
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
      } catch (const std::exception&) {  // no memory, nor for a line that says so
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
  /// It is idle as of now.
  void note_idle();
  [[nodiscard]] HttpShared::ByIdle& siblings() { return is_reserved_ ? shared_->beyond : shared_->placed; }

  enum class State { reading, answering, lingering, closed };
  /// Read at a time: little, for while hundreds of clients send bodies everybody waits for one such piece of each.
  static constexpr std::size_t buffer_bytes = std::size_t{16} << 10;
  using Parser = boost::beast::http::request_parser<CountedBody>;

  void read_head();
  void on_head(Error error);
  void read_body();
  void on_body(Error error);
  void on_read_error(Error error);
  /// Answers with an error instead of reading on.
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
  /// Adds the next piece of a body that is made as it is taken.
  void make_piece();
  void write_some();
  void on_written(Error error, std::size_t size);
  void on_answered();
  void give_up(std::uint64_t serial);
  void linger();
  void read_and_forget();

  void arm(std::chrono::milliseconds time);
  void disarm();
  void on_timeout();

  std::shared_ptr<HttpShared> shared_;  // first: the socket needs its context to the end
  boost::asio::ip::tcp::socket socket_;
  boost::asio::steady_timer timer_;
  std::string client_;
  std::string address_;
  Claim place_;
  bool is_reserved_ = false;
  std::uint64_t idle_since_ = 0;

  State state_ = State::reading;
  bool any_request_ = false;  ///< has been read
  HeadBuffer buffer_;
  std::optional<Parser> parser_;
  HttpRequest request_;  ///< its head, while the body is read
  std::string written_;  ///< being written, from offset_ on
  std::size_t offset_ = 0;
  TextPieces more_;  ///< makes the rest of the body
  std::uint64_t timer_serial_ = 0;
  bool timed_out_ = false;
  bool watching_ = false;     ///< a read for the client's leaving is under way
  bool next_is_due_ = false;  ///< read the next request as soon as that read ends
  bool writing_ = false;
  std::atomic<bool> closes_after_{false};  ///< the running request is the last

  PostSlot flush_slot_, close_slot_;

  std::mutex mutex_;  // guards all below
  std::uint64_t serial_ = 0;
  std::string outbox_;
  std::optional<MemoryClaim> unread_;  ///< what a stream has in the outbox
  TextPieces later_;                   ///< becomes more_
  std::shared_ptr<void> holds_;        ///< until the answer has been taken
  bool flush_scheduled_ = false;       ///< has been posted and has not run
  bool head_only_ = false;             ///< a HEAD request: no body
  bool old_version_ = false;           ///< HTTP/1.0: no chunks
  bool begun_ = false;
  bool ended_ = true;
  bool dropped_ = false;
  std::function<void()> on_drop_;
};

}  // namespace rocmforge
