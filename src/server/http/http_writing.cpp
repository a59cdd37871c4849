#include <fmt/chrono.h>
#include <fmt/format.h>
#include <boost/asio/buffer.hpp>
#include <boost/asio/post.hpp>

#include <algorithm>
#include <chrono>
#include <ctime>
#include <exception>
#include <utility>

#include "server/http/http_connection.h"

// Writing answers.
namespace rocmforge {

namespace {

std::string chunk(std::string_view part) { return fmt::format("{:x}\r\n{}\r\n", part.size(), part); }

}  // namespace

std::string HttpConnection::head_text(const HttpResponse& response, bool streamed) const {
  std::string text = fmt::format("HTTP/1.1 {} {}\r\n", response.status, status_reason(response.status));
  text += fmt::format("Date: {:%a, %d %b %Y %H:%M:%S} GMT\r\n", fmt::gmtime(std::time(nullptr)));
  if (!response.content_type.empty()) {
    text += fmt::format("Content-Type: {}\r\n", response.content_type);
  }
  if (!streamed) {
    text += fmt::format("Content-Length: {}\r\n", response.body.size());
  } else if (!old_version_) {
    text += "Transfer-Encoding: chunked\r\n";
  }
  text += closes_after_ || (streamed && old_version_) ? "Connection: close\r\n" : "Connection: keep-alive\r\n";
  for (const auto& [name, value] : response.headers) {
    text += fmt::format("{}: {}\r\n", name, value);
  }
  return text + "\r\n";
}

void HttpConnection::send(std::uint64_t serial, HttpResponse response) {
  const bool streamed = response.more != nullptr;
  std::string text = head_text(response, streamed);
  closes_after_ = closes_after_ || (streamed && old_version_);
  if (!head_only_) {
    text += streamed && !old_version_ && !response.body.empty() ? chunk(response.body) : response.body;
  }
  {
    const std::lock_guard lock(mutex_);
    if (!dropped_ && !ended_ && serial == serial_ && !head_only_) {
      std::swap(holds_, response.holds);
    }
  }
  if (!streamed || head_only_) {
    append(serial, text, true, false);
  } else if (append(serial, text, false, false) && write_pieces(serial, std::move(response.more))) {
    end(serial);
  }
}

void HttpConnection::begin(std::uint64_t serial, HttpResponse head) {
  std::string text = head_text(head, true);
  if (old_version_) {
    closes_after_ = true;
  }
  if (!head.body.empty()) {
    text += old_version_ ? head.body : chunk(head.body);
  }
  {
    const std::lock_guard lock(mutex_);
    heartbeat_ = serial == serial_ ? head.heartbeat : heartbeat_;
  }
  append(serial, text, false, false);
}

bool HttpConnection::write(std::uint64_t serial, std::string_view part) {
  return part.empty() || append(serial, old_version_ ? std::string(part) : chunk(part), false, true);
}

bool HttpConnection::write_pieces(std::uint64_t serial, TextPieces more) {
  const std::lock_guard lock(mutex_);
  if (dropped_ || ended_ || serial != serial_) {
    return false;
  }
  queued_.push_back({std::move(more)});
  schedule_flush();
  return true;
}

void HttpConnection::end(std::uint64_t serial) { append(serial, old_version_ ? "" : "0\r\n\r\n", true, false); }

bool HttpConnection::append(std::uint64_t serial, std::string_view bytes, bool last, bool limited) {
  std::function<void()> forgotten;  // destroyed after the lock: it may hold the last reply
  const std::lock_guard lock(mutex_);
  if (dropped_ || ended_ || serial != serial_) {
    return false;
  }
  // Bytes being written count as well: the buffer keeps its size.
  const auto counts = [&](std::size_t unread) {
    return unread_->set(std::max(unread_->amount(), static_cast<std::int64_t>(unread)));
  };
  const std::size_t unread = outbox_.size() + queued_bytes_ + bytes.size();
  if (limited && (unread > shared_->limits.unread_bytes || !counts(unread))) {
    post_close();
    return false;
  }
  if (queued_.empty()) {
    outbox_ += bytes;
  } else {
    queued_.back().behind += bytes;
    queued_bytes_ += bytes.size();
  }
  begun_ = true;
  ended_ = last;
  if (last) {
    std::swap(forgotten, on_drop_);
  }
  schedule_flush();
  return true;
}

void HttpConnection::schedule_flush() {
  if (!std::exchange(flush_scheduled_, true)) {
    boost::asio::post(shared_->context, SlotHandler(flush_slot_, then([](HttpConnection& self) {
                                                      {
                                                        const std::lock_guard lock(self.mutex_);
                                                        self.flush_scheduled_ = false;
                                                      }
                                                      self.flush();
                                                    })));
  }
}

// Call with the mutex held.
void HttpConnection::post_close() {
  if (!std::exchange(dropped_, true)) {
    boost::asio::post(shared_->context, SlotHandler(close_slot_, then([](HttpConnection& self) { self.close(); })));
  }
}

void HttpConnection::flush() {
  if (state_ != State::answering || writing_) {
    return;
  }
  offset_ = 0;
  written_.clear();
  while (written_.empty()) {
    if (!more_ && !take_next()) {
      return;
    }
    if (more_ && !make_piece()) {
      return;
    }
  }
  write_some();
}

bool HttpConnection::take_next() {
  bool answered = false, waits = false;
  {
    const std::lock_guard lock(mutex_);
    std::swap(written_, outbox_);
    if (!written_.empty()) {
      return true;
    }
    answered = ended_ && queued_.empty();
    if (!queued_.empty()) {
      more_ = std::move(queued_.front().pieces);
      outbox_ = std::move(queued_.front().behind);
      queued_bytes_ -= outbox_.size();
      queued_.pop_front();
      return true;
    }
    waits = begun_ && !ended_ && !heartbeat_.empty();
  }
  if (answered) {
    on_answered();
  } else if (waits) {
    arm(shared_->limits.heartbeat_time);
  }
  return false;
}

void HttpConnection::beat() {
  std::string_view text;
  std::uint64_t serial = 0;
  {
    const std::lock_guard lock(mutex_);
    text = ended_ ? "" : heartbeat_;
    serial = serial_;
  }
  write(serial, text);
}

// Pieces may be many and empty: after a while the other connections have their turn.
bool HttpConnection::make_piece() {
  constexpr std::size_t enough = std::size_t{64} << 10;
  constexpr std::chrono::milliseconds longest{1};
  try {
    const auto end = std::chrono::steady_clock::now() + longest;
    std::string text;
    bool goes_on = true;
    do {
      goes_on = more_(text);
    } while (goes_on && text.size() < enough && std::chrono::steady_clock::now() < end);
    if (!goes_on) {
      more_ = nullptr;
    }
    written_ = old_version_ || text.empty() ? text : chunk(text);
    if (written_.empty() && goes_on) {
      const std::lock_guard lock(mutex_);
      schedule_flush();
      return false;
    }
    return true;
  } catch (const std::exception&) {  // a part of the answer was sent: only closing the connection can report it
    close();
    return false;
  }
}

// In pieces, since the time limit is for a time without progress.
void HttpConnection::write_some() {
  writing_ = true;
  arm(shared_->limits.write_time);
  socket_.async_write_some(boost::asio::buffer(written_.data() + offset_, written_.size() - offset_),
                           then([](HttpConnection& self, Error error, std::size_t size) { self.on_written(error, size); }));
}

void HttpConnection::on_written(Error error, std::size_t size) {
  writing_ = false;
  if (state_ == State::closed) {
    return;
  }
  disarm();
  if (error) {
    return close();
  }
  offset_ += size;
  offset_ < written_.size() ? write_some() : flush();
}

void HttpConnection::on_answered() {
  written_ = {};
  std::shared_ptr<void> held;  // destroyed after the lock
  {
    const std::lock_guard lock(mutex_);
    std::swap(held, holds_);
    unread_.reset();
  }
  if (closes_after_) {
    return linger();
  }
  if (!watching_) {
    return read_head();
  }
  state_ = State::reading;
  note_idle();
  next_is_due_ = true;
  arm(shared_->limits.idle_time);
}

void HttpConnection::on_drop(std::uint64_t serial, std::function<void()> dropped) {
  {
    const std::lock_guard lock(mutex_);
    if (ended_ || serial != serial_) {
      return;
    }
    if (!dropped_) {
      on_drop_ = std::move(dropped);
      return;
    }
  }
  dropped();
}

void HttpConnection::abandon(std::uint64_t serial) noexcept {
  try {
    give_up(serial);
  } catch (const std::exception&) {  // no memory for an answer
    drop(serial);
  }
}

void HttpConnection::drop(std::uint64_t serial) noexcept {
  const std::lock_guard lock(mutex_);
  if (!dropped_ && !ended_ && serial == serial_) {
    post_close();
  }
}

void HttpConnection::give_up(std::uint64_t serial) {
  bool begun = false;
  {
    const std::lock_guard lock(mutex_);
    if (dropped_ || ended_ || serial != serial_) {
      return;
    }
    begun = begun_;
  }
  closes_after_ = true;
  if (begun) {
    append(serial, "", true, false);
  } else {
    send(serial, shared_->handler.error(500, "the request was given up", client_));
  }
}

}  // namespace rocmforge
