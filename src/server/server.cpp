#include "server/server.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <exception>
#include <new>
#include <optional>
#include <thread>
#include <utility>

#include "server/access.h"
#include "server/api/status.h"
#include "server/forwarded_client.h"
#include "server/model_service.h"
#include "server/router.h"
#include "service/workers.h"

namespace rocmforge {
namespace {

/// Reading a request with a larger body may take long.
constexpr std::size_t long_body_bytes = std::size_t{64} << 10;
/// Reading a request that takes more units of work does take long, whatever its body is: about 5 ms.
constexpr std::uint64_t short_work = 250'000;

HttpLimits http_limits(const ServerOptions& options) {
  HttpLimits limits = options.http;
  limits.client_share = options.client_share;
  return limits;
}

}  // namespace

class Server::Implementation {
 public:
  Implementation(const ServerOptions& options, std::shared_ptr<ModelService> service, std::vector<Route> routes)
      : state_{.options = options, .service = std::move(service)},
        log_(std::make_shared<RequestLog>(options.log)),
        access_(options.keys, options.cors_origins, options.hosts),
        router_(std::move(routes)),
        memory_(std::make_shared<RequestMemory>(options.request_memory, options.client_share)),
        http_(std::make_unique<HttpServer>(options.host, options.port, http_limits(options), handler(), memory_)) {
    log_->event(fmt::format("listening at {}", url()));
    log_->event(fmt::format("requests and answers may hold {} MiB together", options.request_memory >> 20));
    if (log_->has_failed()) {
      throw Error(fmt::format("the log file can't be written: {}", options.log.file));
    }
  }

  // In this order: no request arrives any more, none is being read, none is running, and no answer is left.
  ~Implementation() {
    http_->stop();
    workers_.stop();
    state_.pulls.stop();
    state_.slots.stop();
    if (is_shared()) {
      wait_for_exchanges();
    }
    state_.service.reset();
    http_.reset();
  }

  [[nodiscard]] std::uint16_t port() const { return http_->port(); }
  [[nodiscard]] std::string url() const {
    const std::string& host = state_.options.host;
    if (is_socket_path(host)) {
      return "unix:" + host;
    }
    const bool numbers_of_ipv6 = host.find(':') != std::string::npos;
    return fmt::format("http://{}:{}", numbers_of_ipv6 ? "[" + host + "]" : host, port());
  }
  [[nodiscard]] RequestLog& log() { return *log_; }

  void serve(std::unique_ptr<Engine> engine) {
    state_.service->start(std::move(engine), state_.options);
    log_->event(fmt::format("serving {}", state_.options.model_id));
  }

  [[nodiscard]] Json description() const { return describe_model(state_.needed_backend().model); }

  bool drain(std::chrono::milliseconds limit, const std::function<bool()>& hurry) {
    state_.draining = true;
    if (http_->drain(limit, hurry)) {
      return true;
    }
    workers_.interrupt_all(Interruption::shutdown);
    state_.pulls.interrupt();
    state_.slots.interrupt();
    if (!is_shared()) {  // else others use the model: only this server's requests end, with their connections
      state_.service->models.cancel_all();
      http_->drain(std::chrono::milliseconds(500));  // for the ends of the answers
    }
    return false;
  }

 private:
  /// Whether others go on using the model.
  [[nodiscard]] bool is_shared() const { return state_.service.use_count() > 1; }

  /// If others go on using the model, requests of clients were cancelled with their connections, and end with the
  /// step. The unread rest of an answer that has ended stays with its connection: do not wait for it.
  void wait_for_exchanges() const {
    constexpr int most_milliseconds = 2000;
    for (int i = 0; i < most_milliseconds && log_.use_count() > 1; ++i) {  // each exchange holds the log
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }

  HttpHandler handler() {
    return {.check_head = [this](HttpRequest& request) { return check_head(request); },
            .handle = [this](HttpRequest request,
                             std::shared_ptr<HttpReply> reply) { handle(std::move(request), std::move(reply)); },
            .error = [this](int status, std::string_view message,
                            std::string_view client) { return error(status, message, client); },
            .is_vital =
                [this](const HttpRequest& request) {
                  const Route* route = router_.find(request.method, request.path).route;
                  return route != nullptr && route->is_vital;
                }};
  }

  HttpResponse error(int status, std::string_view message, std::string_view client) {
    ApiError problem(status, std::string(message));
    problem.retry_after_seconds = status == 503 ? 1 : 0;
    return refusal(problem, {{"client", client}});
  }

  /// A refusal; it is counted and logged.
  HttpResponse refusal(const ApiError& problem, const Json& request, ErrorForm form = openai_error,
                       const std::string& id = random_id()) {
    HttpResponse response = problem.response(form);
    response.headers.emplace_back("X-Request-Id", id);
    state_.service->models.metrics().answered(problem.status);
    Json line = {{"id", id}};
    line.update(request);
    line["status"] = problem.status;
    line["error"] = problem.message;
    log_->request(line);
    return response;
  }

  /// Throws ApiError for a request that is refused without its body.
  void check(const HttpRequest& request, const Router::Found& found) const {
    if (!access_.allows_host(request)) {
      throw ApiError(403, fmt::format("this server is not called '{}'; --allowed-hosts with that name makes it so",
                                      request.header("Host").substr(0, 64)));
    }
    if (!access_.allows_origin(request)) {
      throw ApiError(403, "pages of this origin may not use the server; --cors-origin allows them");
    }
    if (request.method == "OPTIONS") {
      return;
    }
    const Route* route = found.route;
    if ((route == nullptr || !route->is_public) && !access_.has_key(request)) {
      throw ApiError(401, "the API key is missing or wrong", "", "invalid_api_key");
    }
    if (route == nullptr) {
      throw Router::unserved(found, request.method, request.path);
    }
    if (route->needs_model && state_.service->models.first() == nullptr) {
      throw still_loading();
    }
    if (route->method == "POST" && state_.draining) {
      throw shutting_down();
    }
  }

  std::unique_ptr<HttpResponse> check_head(HttpRequest& request) {
    const Router::Found found = router_.find(request.method, request.path);
    try {
      check(request, found);
      if (const auto key = access_.key_of(request)) {
        request.owner = fmt::format("key {}", *key);
        request.account = request.owner;
      }
      if (state_.options.behind_router) {
        take_forwarded_client(request);
      }
    } catch (const ApiError& problem) {
      auto response = std::make_unique<HttpResponse>(
          refusal(problem, {{"client", request.client}, {"method", request.method}, {"path", request.path}},
                  found.route != nullptr ? found.route->error : openai_error, id_of(request)));
      const HttpHeaders cors = access_.cors_headers(request);
      response->headers.insert(response->headers.end(), cors.begin(), cors.end());
      return response;
    }
    Router::prepare(request, found);
    return nullptr;
  }

  [[nodiscard]] RequestLimits limits(const HttpRequest& request) const {
    const ServerOptions& options = state_.options;
    RequestLimits limits{.work = options.request_work, .memory = memory_, .max_priority = options.max_priority};
    if (options.request_time) {
      limits.deadline = std::chrono::steady_clock::now() + *options.request_time;
    }
    if (const auto key = access_.key_of(request)) {
      limits.max_priority = access_.key(*key).max_priority.value_or(options.max_priority);
      if (options.isolate_keys || (options.keys.size() > 1 && !options.share_prefixes)) {
        limits.prefix_space = prefix_space_of(access_.key(*key));
      }
    }
    if (options.behind_router) {
      take_forwarded_limits(request, limits);
    }
    return limits;
  }

  void handle(HttpRequest request, std::shared_ptr<HttpReply> reply) {
    const Route* route = request.route;
    HttpHeaders cors = access_.cors_headers(request);
    const RequestLimits allowed = limits(request);
    auto exchange = std::make_shared<HttpExchange>(std::move(request), std::move(reply), log_,
                                                   state_.service->models.metrics(), std::move(cors), allowed);
    if (route == nullptr) {  // OPTIONS: all else has been refused
      return exchange->send(HttpResponse{.content_type = ""});
    }
    if (route->is_quick) {
      return run(*route, exchange);
    }
    exchange->on_drop([weak = std::weak_ptr(exchange)] {
      if (const auto self = weak.lock()) {
        self->interrupt(Interruption::client_left);
      }
    });
    const bool is_long = exchange->request.body.size() > long_body_bytes;
    if (!is_long) {
      exchange->attempt(short_work);
    }
    read(*route, exchange, is_long);
  }

  void read(const Route& route, const std::shared_ptr<HttpExchange>& exchange, bool is_long) {
    workers_.post({.client = exchange->request.account,
                   .is_long = is_long,
                   .deadline = exchange->limits().deadline,
                   .run = [this, &route, exchange] { run(route, exchange); },
                   .interrupt = [exchange](Interruption reason) { exchange->interrupt(reason); }});
  }

  /// Never throws: if even the refusal fails, the reply is dropped.
  void run(const Route& route, const std::shared_ptr<HttpExchange>& exchange) noexcept {
    try {
      const std::optional<ApiError> problem = Router::serve(route, exchange, state_);
      if (problem && exchange->reading.budget.is_postponed()) {
        exchange->begin_again();
        read(route, exchange, true);
      } else if (problem) {
        Router::refuse(route, *exchange, state_, *problem);
      }
    } catch (const std::exception&) {  // no memory even for the reason
    }
  }

  ServerState state_;
  std::shared_ptr<RequestLog> log_;
  AccessRules access_;
  Router router_;
  std::shared_ptr<RequestMemory> memory_;
  Workers workers_;
  std::unique_ptr<HttpServer> http_;  // last: it calls the members above
};

Server::Server(const ServerOptions& options) : Server(options, std::make_shared<ModelService>()) {}
Server::Server(const ServerOptions& options, std::shared_ptr<ModelService> service)
    : implementation_(std::make_unique<Implementation>(options, std::move(service), server_routes(options))) {}
Server::Server(const ServerOptions& options, std::vector<Route> routes)
    : implementation_(std::make_unique<Implementation>(options, std::make_shared<ModelService>(), std::move(routes))) {}
Server::~Server() = default;
std::uint16_t Server::port() const { return implementation_->port(); }
std::string Server::url() const { return implementation_->url(); }
RequestLog& Server::log() { return implementation_->log(); }
void Server::serve(std::unique_ptr<Engine> engine) { implementation_->serve(std::move(engine)); }
Json Server::description() const { return implementation_->description(); }
bool Server::drain(std::chrono::milliseconds limit, const std::function<bool()>& hurry) {
  return implementation_->drain(limit, hurry);
}

}  // namespace rocmforge
