#include "gateway/passage.h"

#include <fmt/format.h>

#include <algorithm>
#include <initializer_list>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "base/printable.h"
#include "server/api/multipart.h"
#include "server/forwarded_client.h"
#include "server/router.h"

namespace rocmforge {
namespace {

bool is_one_of(std::string_view name, std::initializer_list<std::string_view> names) {
  return std::ranges::any_of(names, [&](std::string_view one) { return equal_ignoring_case(one, name); });
}

/// Of one connection, or checked by the router already: keys, origins, the server's name.
bool stays_here(std::string_view name) {
  return is_forwarded_header(name) ||
         is_one_of(name,
                   {"Host", "Connection", "Keep-Alive", "Content-Length", "Transfer-Encoding", "TE", "Trailer", "Upgrade",
                    "Expect", "Authorization", "X-Api-Key", "Origin", "Cookie", "Proxy-Authorization", "X-Request-Id"});
}

/// What the router writes itself.
bool is_replaced(std::string_view name) {
  return is_one_of(name, {"Date", "Content-Type", "Content-Length", "Transfer-Encoding", "Connection", "Keep-Alive",
                          "X-Request-Id"}) ||
         name.starts_with("Access-Control-") || is_one_of(name, {"Vary"});
}

std::string_view header_of(const HttpAnswer& head, std::string_view name) {
  const auto found =
      std::ranges::find_if(head.headers, [&](const auto& one) { return equal_ignoring_case(one.first, name); });
  return found == head.headers.end() ? std::string_view() : std::string_view(found->second);
}

bool is_stream(const HttpAnswer& head) {
  const std::string_view type = header_of(head, "Content-Type");
  return type.starts_with("text/event-stream") || type.starts_with("application/x-ndjson");
}

constexpr std::size_t most_listed = 20;

}  // namespace

Forwarder::Passage::Passage(ModelPool& pool, std::shared_ptr<HttpExchange> exchange, const ServerState& state,
                            bool asks_loaded)
    : pool_(pool),
      exchange_(std::move(exchange)),
      state_(state),
      asks_loaded_(asks_loaded),
      body_(std::move(exchange_->request.body)),
      body_memory_(std::move(exchange_->request.memory)) {}

void Forwarder::Passage::interrupt(Interruption reason) {
  Interruption before = Interruption::none;
  waiter_.interrupted.compare_exchange_strong(before, reason);
  exchange_->interrupt(reason);
  {
    const std::lock_guard lock(mutex_);
    if (client_ != nullptr) {
      client_->stop();
    }
  }
  pool_.wake();
}

void Forwarder::Passage::run() {
  exchange_->on_drop([weak = weak_from_this()] {
    if (const auto self = weak.lock()) {
      self->interrupt(Interruption::client_left);
    }
  });
  waiter_.deadline = exchange_->limits().deadline;
  asks_loaded_ ? ask_all_loaded() : ask_named();
}

// Where the client wants the head alone, the connection leaves out the body.
std::string_view Forwarder::Passage::method() const {
  return exchange_->request.method == "HEAD" ? std::string_view("GET") : exchange_->request.method;
}

std::string Forwarder::Passage::model_of(const AskedModel& asked) const {
  constexpr std::string_view latest = ":latest";
  std::optional<std::string> name = asked.name;
  if (!name || name->empty()) {
    name = exchange_->request.parameter("model");
  }
  if (name && !pool_.knows(*name) && name->ends_with(latest)) {  // as Ollama's clients call it
    name->resize(name->size() - latest.size());
  }
  if (name && !name->empty()) {
    if (!pool_.knows(*name)) {
      throw no_such_model(*name);
    }
    return *name;
  }
  const std::vector<std::string> names = pool_.names();
  if (names.size() > 1) {
    std::string list;
    for (std::size_t i = 0; i < std::min(names.size(), most_listed); ++i) {
      list += (i == 0 ? "" : ", ") + printable(names[i], 100);
    }
    throw ApiError(
        400, fmt::format("model is missing: the server has {}{}", list, names.size() > most_listed ? ", ..." : ""), "model");
  }
  return names.front();
}

ApiError Forwarder::Passage::stopped(Interruption reason) const {
  switch (reason) {
    case Interruption::time:
      return took_too_long(state_.options.request_time.value_or(std::chrono::milliseconds(0)));
    case Interruption::shutdown:
      return shutting_down();
    default:
      return {499, "the client has left"};
  }
}

std::unique_ptr<ModelPool::Use> Forwarder::Passage::acquire(const std::string& name, const AskedModel& asked) {
  std::optional<KeepAlive> keep_alive;
  if (asked.keep_alive) {
    try {
      keep_alive = read_keep_alive(*asked.keep_alive);
    } catch (const Error& error) {
      throw ApiError(400, fmt::format("keep_alive: {}", error.what()), "keep_alive");
    }
  }
  try {
    return pool_.acquire(name, waiter_, keep_alive);
  } catch (const ModelPool::Interrupted& interrupted) {
    throw stopped(interrupted.reason);
  } catch (const Error& error) {
    throw ApiError(500, fmt::format("the model '{}' can't be loaded: {}", name, error.what()), "model", "model_load_failed");
  }
}

void Forwarder::Passage::ask_named() {
  const std::string_view type = exchange_->request.header("Content-Type");
  const AskedModel asked = is_form(type) ? read_asked_form(type, body_) : read_asked_model(body_);
  const std::string name = model_of(asked);
  exchange_->note("model", name);
  const std::unique_ptr<ModelPool::Use> use = method() == "GET" ? pool_.loaded(name) : acquire(name, asked);
  if (use == nullptr) {
    throw ApiError(503, fmt::format("the model '{}' is not loaded", name), "model");
  }
  finish(pass(*use, false));
}

void Forwarder::Passage::ask_all_loaded() {
  for (const auto& use : pool_.loaded()) {
    if (const int status = pass(*use, true); status != 404) {
      return finish(status);
    }
  }
  throw ApiError(404, "no loaded model knows it");
}

int Forwarder::Passage::request(const ModelPool::Use& use) {
  const HttpRequest& request = exchange_->request;
  HttpHeaders headers = forwarded_headers(request, exchange_->limits());
  headers.emplace_back("X-Request-Id", exchange_->id());  // so that the model's log has the same
  for (const auto& header : request.headers) {
    if (!stays_here(header.first)) {
      headers.push_back(header);
    }
  }
  const std::string target = request.query.empty() ? request.path : request.path + "?" + request.query;
  StreamingClient client({.host = use.socket()}, 0);
  const auto set_client = [this](StreamingClient* now) {
    const std::lock_guard lock(mutex_);
    client_ = now;
  };
  set_client(&client);
  const std::shared_ptr<void> end(nullptr, [&](void*) { set_client(nullptr); });
  if (const Interruption reason = waiter_.interrupted; reason != Interruption::none) {
    throw stopped(reason);
  }
  return client.request({.method = method(), .target = target, .headers = std::move(headers), .body = body_},
                        [this](const HttpAnswer& head, std::string_view piece) { return take(head, piece); });
}

int Forwarder::Passage::pass(const ModelPool::Use& use, bool skips_404) {
  skips_404_ = skips_404;
  try {
    return request(use);
  } catch (const Error& error) {
    if (const Interruption reason = waiter_.interrupted; reason != Interruption::none && !has_begun_) {
      throw stopped(reason);
    }
    report_loss(use, error.what());
    return answer_.status;
  }
}

bool Forwarder::Passage::take(const HttpAnswer& head, std::string_view piece) {
  if (head.status == 404 && skips_404_) {
    return true;
  }
  if (!std::exchange(has_head_, true)) {
    begin(head);
  }
  if (has_begun_) {
    return exchange_->write(piece);
  }
  if (!memory_) {
    memory_.emplace(exchange_->limits().memory, exchange_->request.account);
  }
  if (!memory_->grow(static_cast<std::int64_t>(piece.size()))) {
    ApiError lacking(503, no_memory_text(*exchange_->limits().memory));
    lacking.retry_after_seconds = 1;
    throw lacking;
  }
  answer_.body += piece;
  return true;
}

void Forwarder::Passage::begin(const HttpAnswer& head) {
  answer_.status = head.status;
  answer_.content_type = header_of(head, "Content-Type");
  answer_.headers.clear();
  for (const auto& header : head.headers) {
    if (!is_replaced(header.first)) {
      answer_.headers.push_back(header);
    }
  }
  if (is_stream(head)) {
    has_begun_ = true;
    exchange_->begin(answer_);
  }
}

void Forwarder::Passage::finish(int status) {
  if (has_begun_) {
    return exchange_->end();
  }
  check(status != 0, "an answer has come");
  memory_.reset();  // the exchange counts it from here on
  exchange_->send(std::move(answer_));
}

// A client that has a part of the answer gets the error as the stream's last event.
void Forwarder::Passage::report_loss(const ModelPool::Use& use, const std::string& problem) {
  const std::string reason = use.end_reason();
  const ApiError error(502, fmt::format("the model's server gave no whole answer: {}", reason.empty() ? problem : reason),
                       "", "model_failed");
  if (!has_begun_) {
    throw error;
  }
  const std::string text = to_text(exchange_->request.route->error(error));
  exchange_->note("error", error.message);
  exchange_->write(answer_.content_type.starts_with("application/x-ndjson") ? text + "\n"
                                                                            : fmt::format("data: {}\n\n", text));
}

}  // namespace rocmforge
