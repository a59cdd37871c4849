#include "server/local_client.h"

#include <condition_variable>
#include <mutex>
#include <utility>

#include "server/http/http_head.h"

namespace rocmforge {
namespace {

/// The unread part of one answer, which the delivery thread passes to the waiting thread.
struct Mailbox {
  std::mutex mutex;  // guards the members below
  std::condition_variable changed;
  HttpResponse response{};
  std::string parts{};
  bool ended = false;
  bool streams = false;
  bool left = false;  ///< the reader has stopped
  std::function<void()> dropped{};
};

class LocalReply final : public HttpReply {
 public:
  explicit LocalReply(std::shared_ptr<Mailbox> box) : box_(std::move(box)) {}
  ~LocalReply() override {
    const std::lock_guard lock(box_->mutex);
    if (!std::exchange(box_->ended, true)) {
      box_->response.status = 500;
      box_->changed.notify_all();
    }
  }

  void send(HttpResponse response) override {
    while (response.more && response.more(response.body)) {
    }
    const std::lock_guard lock(box_->mutex);
    box_->response = std::move(response);
    end_locked();
  }
  void begin(HttpResponse head) override {
    const std::lock_guard lock(box_->mutex);
    box_->parts = std::exchange(head.body, {});
    box_->response = std::move(head);
    box_->streams = true;
    box_->changed.notify_all();
  }
  bool write(std::string_view part) override {
    const std::lock_guard lock(box_->mutex);
    if (box_->left) {
      return false;
    }
    box_->parts += part;
    box_->changed.notify_all();
    return true;
  }
  bool write_pieces(TextPieces more) override {
    std::string part;
    while (more(part)) {
    }
    return write(part);
  }
  void end() override {
    const std::lock_guard lock(box_->mutex);
    end_locked();
  }
  void drop() noexcept override {
    const std::lock_guard lock(box_->mutex);
    box_->response.status = 503;
    end_locked();
  }
  void on_drop(std::function<void()> dropped) override {
    const std::lock_guard lock(box_->mutex);
    box_->dropped = std::move(dropped);
  }

 private:
  void end_locked() noexcept {
    box_->ended = true;
    box_->changed.notify_all();
  }

  std::shared_ptr<Mailbox> box_;
};

/// The lifetime of a reader. Its end cancels a request that is still running, and releases the callback `dropped`.
class Listener {
 public:
  explicit Listener(Mailbox& box) : box_(box) {}
  Listener(const Listener&) = delete;
  Listener& operator=(const Listener&) = delete;
  ~Listener() {
    std::function<void()> dropped;
    {
      const std::lock_guard lock(box_.mutex);
      box_.left = true;
      dropped.swap(box_.dropped);
      if (box_.ended) {
        return;
      }
    }
    if (dropped) {
      dropped();
    }
  }

 private:
  Mailbox& box_;
};

/// Waits until all parts were taken or `take` has returned false, and returns the answer.
HttpResponse read_answer(Mailbox& box, const LocalClient::TakePart& take) {
  std::unique_lock lock(box.mutex);
  for (;;) {
    box.changed.wait(lock, [&] { return box.ended || !box.parts.empty(); });
    if (box.parts.empty()) {
      return std::exchange(box.response, {});
    }
    const std::string part = std::exchange(box.parts, {});
    lock.unlock();
    const bool goes_on = !take || take(part);
    lock.lock();
    if (!goes_on) {
      return std::exchange(box.response, {});
    }
  }
}

std::vector<Route> all_routes(const ServerOptions& options, const std::vector<Route>& more) {
  std::vector<Route> routes = server_routes(options);
  routes.insert(routes.end(), more.begin(), more.end());
  return routes;
}

}  // namespace

LocalClient::LocalClient(std::shared_ptr<ModelService> service, const ServerOptions& options, const std::vector<Route>& more)
    : state_{.options = options, .service = std::move(service)},
      log_(std::make_shared<RequestLog>(LogOptions{.silent = true})),
      router_(all_routes(options, more)) {}

HttpResponse LocalClient::request(const std::string& method, const std::string& path, std::string body,
                                  const TakePart& take) {
  HttpRequest asked{.method = method, .path = path, .body = std::move(body), .client = "local", .account = "local"};
  if (!split_target(path, asked)) {
    return ApiError(400, "the request's target is no path").response();
  }
  const Router::Found found = router_.find(method, asked.path);
  if (found.route == nullptr) {
    return Router::unserved(found, method, asked.path).response();
  }
  const auto box = std::make_shared<Mailbox>();
  const Listener listener(*box);
  Router::prepare(asked, found);
  auto exchange = std::make_shared<HttpExchange>(std::move(asked), std::make_shared<LocalReply>(box), log_,
                                                 state_.service->models.metrics(), HttpHeaders{},
                                                 RequestLimits{.work = state_.options.request_work});
  if (const auto problem = Router::serve(*found.route, exchange, state_)) {
    Router::refuse(*found.route, *exchange, state_, *problem);
  }
  exchange.reset();
  HttpResponse answer = read_answer(*box, take);
  if (method == "HEAD") {
    answer.body.clear();
  }
  return answer;
}

}  // namespace rocmforge
