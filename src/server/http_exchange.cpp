#include "server/http_exchange.h"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <new>
#include <random>
#include <string_view>
#include <utility>

#include "server/api/api_error.h"

namespace rocmforge {
namespace {

/// The largest body that is sent without being counted: such a one waits in the socket's buffers.
constexpr std::size_t small_body = std::size_t{64} << 10;

/// As long as a UUID with a prefix may be; it stands in every line of the log.
constexpr std::size_t longest_id = 128;

bool is_id(std::string_view text) {
  return !text.empty() && text.size() <= longest_id && std::ranges::all_of(text, [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '-' || c == '_' || c == '.' ||
           c == ':';
  });
}

}  // namespace

std::string id_of(const HttpRequest& request) {
  const std::string_view given = request.header("X-Request-Id");
  return is_id(given) ? std::string(given) : random_id();
}

std::string random_id() {
  std::random_device device;
  std::string id;
  for (int i = 0; i < 3; ++i) {
    id += fmt::format("{:08x}", device());
  }
  return id;
}

HttpExchange::HttpExchange(HttpRequest http_request, std::shared_ptr<HttpReply> reply, std::shared_ptr<RequestLog> log,
                           ServiceMetrics& metrics, HttpHeaders headers, const RequestLimits& limits)
    : request(std::move(http_request)),
      reading(limits.work, limits.memory, request.account),
      reply_(std::move(reply)),
      limits_(limits),
      log_(std::move(log)),
      metrics_(metrics),
      id_(id_of(request)),
      headers_(std::move(headers)),
      own_headers_(headers_.size()),
      came_(std::chrono::steady_clock::now()) {}

HttpExchange::~HttpExchange() {
  try {
    finish(0);
  } catch (const std::exception&) {  // no memory for the log's line
  }
}

void HttpExchange::begin_again() {
  headers_.resize(own_headers_);
  reading.begin_again();
}

Document HttpExchange::take_json(bool takes_array) {
  Document json(parse_body(request.body, reading.cost(), takes_array));
  if (!reading.budget.is_attempt()) {
    forget_body();
  }
  return json;
}

void HttpExchange::forget_body() {
  request.body = {};
  request.memory.reset();
}

void HttpExchange::settle() {
  forget_body();
  reading.release();
}

void HttpExchange::interrupt(Interruption reason) {
  Interruption before = Interruption::none;
  interruption_.compare_exchange_strong(before, reason);
  reading.budget.stop();
}

void HttpExchange::send_pieces(TextPieces more, std::string_view content_type) {
  HttpResponse response{.content_type = std::string(content_type)};
  bool goes_on = true;
  while (goes_on && response.body.size() < small_body) {
    goes_on = more(response.body);
  }
  if (goes_on) {
    response.more = std::move(more);
  }
  send(std::move(response));
}

double HttpExchange::seconds() const {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - came_).count();
}

void HttpExchange::add_headers(HttpResponse& response) const {
  response.headers.emplace_back("X-Request-Id", id_);
  response.headers.insert(response.headers.end(), headers_.begin(), headers_.end());
}

// The log line and the metrics come first: a client that has the answer may look for them.
void HttpExchange::send(HttpResponse response) {
  if (response.body.size() > small_body) {
    reading.hold(static_cast<std::int64_t>(response.body.size()));
  }
  add_headers(response);
  finish(response.status);
  response.holds = reading.claim();
  reply_->send(std::move(response));
}

void HttpExchange::begin(HttpResponse head) {
  add_headers(head);
  {
    const std::lock_guard lock(mutex_);
    status_ = head.status;
  }
  reply_->begin(std::move(head));
}

bool HttpExchange::write_pieces(TextPieces more) {
  return reply_->write_pieces([more = std::move(more), holds = reading.claim()](std::string& out) { return more(out); });
}

void HttpExchange::end() {
  finish(0);
  reply_->end();
}

void HttpExchange::note(const std::string& key, Json value) {
  const std::lock_guard lock(mutex_);
  try {
    notes_[key] = std::move(value);
  } catch (const std::bad_alloc&) {
  }
}

void HttpExchange::finish(int status) {
  const std::lock_guard lock(mutex_);
  if (std::exchange(finished_, true)) {
    return;
  }
  status_ = status != 0 ? status : status_ != 0 ? status_ : 499;  // without an answer: the client has disconnected
  metrics_.answered(status_);
  Json line = {{"id", id_},         {"client", request.client}, {"method", request.method}, {"path", request.path},
               {"status", status_}, {"seconds", seconds()}};
  line.update(notes_);
  log_->request(line);
}

}  // namespace rocmforge
