#include "server/server.h"

#include <fmt/format.h>
#include <boost/asio/post.hpp>
#include <boost/asio/thread_pool.hpp>

#include <algorithm>
#include <exception>
#include <new>
#include <thread>
#include <utility>

#include "server/access.h"
#include "server/routes.h"

namespace rocmforge {
namespace {

/// Requests are read and prompts encoded on these; steps run elsewhere.
constexpr std::size_t num_workers = 4;

}  // namespace

class Server::Implementation {
 public:
  explicit Implementation(const ServerOptions& options)
      : state_{.options = options},
        log_(options.log),
        access_(options.keys, options.cors_origins, options.local),
        routes_(server_routes(options)),
        workers_(num_workers),
        http_(std::make_unique<HttpServer>(options.host, options.port, options.http, handler())) {
    log_.event(fmt::format("listening at {}", url()));
    if (log_.has_failed()) {
      throw Error(fmt::format("the log file can't be written: {}", options.log.file));
    }
  }

  // In this order: no request comes any more, none is being read, none is under way.
  ~Implementation() {
    http_.reset();
    workers_.join();
    loop_.reset();
  }

  [[nodiscard]] std::uint16_t port() const { return http_->port(); }
  [[nodiscard]] std::string url() const {
    const std::string& host = state_.options.host;
    const bool numbers_of_ipv6 = host.find(':') != std::string::npos;
    return fmt::format("http://{}:{}", numbers_of_ipv6 ? "[" + host + "]" : host, port());
  }
  [[nodiscard]] RequestLog& log() { return log_; }

  void serve(std::unique_ptr<Engine> engine) {
    const ServerOptions& options = state_.options;
    ServedModel model =
        describe_model(*engine, options.model_id, options.model_path, options.parallel, options.chat_template);
    options.sampling.apply(model.sampling);
    model.template_arguments = options.template_arguments;
    state_.metrics.set_model({model.id, model.context_length, cache_labels(*engine)});
    loop_ = std::make_unique<EngineLoop>(std::move(engine), state_.metrics, options.parallel + options.max_waiting);
    grammars_ = std::make_unique<GrammarCache>(model.tokenizer);
    backend_.reset(new Backend{std::move(model), *loop_, state_.active, *grammars_, options.request_time, options.pooling,
                               options.strict_fields});
    state_.backend = backend_.get();
    log_.event(fmt::format("serving {}", options.model_id));
  }

  bool drain(std::chrono::milliseconds limit, const std::function<bool()>& hurry) {
    state_.draining = true;
    if (http_->drain(limit, hurry)) {
      return true;
    }
    if (loop_ != nullptr) {
      loop_->cancel_all();
    }
    http_->drain(std::chrono::milliseconds(500));  // for the ends of the answers
    return false;
  }

 private:
  static Exposition::Labels cache_labels(Engine& engine) {
    const KvLayout& layout = engine.cache().layout();
    return {{"block_size", fmt::format("{}", layout.block_tokens)},
            {"num_blocks", fmt::format("{}", engine.cache().num_blocks())},
            {"cache_dtype", std::string(name(layout.dtype))}};
  }

  HttpHandler handler() {
    return {.check_head = [this](const HttpRequest& request) { return check_head(request); },
            .handle = [this](HttpRequest request,
                             std::shared_ptr<HttpReply> reply) { handle(std::move(request), std::move(reply)); },
            .error = [this](int status, std::string_view message,
                            std::string_view client) { return error(status, message, client); }};
  }

  HttpResponse error(int status, std::string_view message, std::string_view client) {
    ApiError problem(status, std::string(message));
    problem.retry_after_seconds = status == 503 ? 1 : 0;
    return refusal(problem, {{"client", client}});
  }

  /// The answer to a request that gets no further, counted and logged.
  HttpResponse refusal(const ApiError& problem, const Json& request) {
    const std::string id = random_id();
    HttpResponse response = problem.response();
    response.headers.emplace_back("X-Request-Id", id);
    state_.metrics.answered(problem.status);
    Json line = {{"id", id}};
    line.update(request);
    line["status"] = problem.status;
    line["error"] = problem.message;
    log_.request(line);
    return response;
  }

  /// "/v1/models/" is "/v1/models": clients join paths in either way.
  static std::string_view without_trailing_slashes(std::string_view path) {
    return path.substr(0, std::max<std::size_t>(path.find_last_not_of('/') + 1, 1));
  }

  [[nodiscard]] const Route* find(const HttpRequest& request, bool& path_known) const {
    const std::string_view path = without_trailing_slashes(request.path);
    const Route* found = nullptr;
    const std::string_view method = request.method == "HEAD" ? "GET" : std::string_view(request.method);
    for (const Route& route : routes_) {
      if (matches(route, path)) {
        path_known = true;
        found = found == nullptr && route.method == method ? &route : found;
      }
    }
    return found;
  }

  /// Throws ApiError for what needs no look at the body to be refused.
  void check(const HttpRequest& request) const {
    if (!access_.allows_host(request)) {
      throw ApiError(403, fmt::format("this server is not called '{}'; --cors-origin with its origin makes it so",
                                      request.header("Host").substr(0, 64)));
    }
    if (!access_.allows_origin(request)) {
      throw ApiError(403, "pages of this origin may not use the server; --cors-origin allows them");
    }
    if (request.method == "OPTIONS") {
      return;
    }
    bool path_known = false;
    const Route* route = find(request, path_known);
    if ((route == nullptr || !route->is_public) && !access_.has_key(request)) {
      throw ApiError(401, "the API key is missing or wrong", "", "invalid_api_key");
    }
    if (route == nullptr) {
      throw path_known
          ? ApiError(405, fmt::format("{} is not for {}", request.path.substr(0, 64), request.method.substr(0, 16)))
          : ApiError(404, fmt::format("there is no {}", request.path.substr(0, 64)));
    }
    if (route->needs_model && state_.backend == nullptr) {
      ApiError loading(503, "Loading model");
      loading.retry_after_seconds = 1;
      loading.details = {{"code", 503}};  // as llama-server's clients know it
      throw loading;
    }
    if (route->method == "POST" && state_.draining) {
      ApiError closing(503, "the server is shutting down");
      closing.retry_after_seconds = 1;
      throw closing;
    }
  }

  std::unique_ptr<HttpResponse> check_head(const HttpRequest& request) {
    try {
      check(request);
    } catch (const ApiError& problem) {
      auto response = std::make_unique<HttpResponse>(
          refusal(problem, {{"client", request.client}, {"method", request.method}, {"path", request.path}}));
      const HttpHeaders cors = access_.cors_headers(request);
      response->headers.insert(response->headers.end(), cors.begin(), cors.end());
      return response;
    }
    return nullptr;
  }

  void handle(HttpRequest request, std::shared_ptr<HttpReply> reply) {
    bool path_known = false;
    const Route* route = find(request, path_known);
    HttpHeaders cors = access_.cors_headers(request);
    request.path.resize(without_trailing_slashes(request.path).size());
    auto exchange = std::make_shared<Exchange>(std::move(request), std::move(reply), log_, state_.metrics, std::move(cors));
    if (route == nullptr) {  // OPTIONS: everything else has been refused
      return exchange->send(HttpResponse{.content_type = ""});
    }
    if (route->is_quick) {
      return run(*route, exchange);
    }
    boost::asio::post(workers_, [this, route, exchange] { run(*route, exchange); });
  }

  void run(const Route& route, const std::shared_ptr<Exchange>& exchange) {
    if (log_.shows_texts() && !exchange->request.body.empty()) {
      exchange->note("body", exchange->request.body);
    }
    const auto refuse = [&](const ApiError& problem) {
      if (problem.status == 429) {
        state_.metrics.rejected("queue_full");
      }
      exchange->note("error", problem.message);
      exchange->send(problem.response());
    };
    try {
      route.serve(exchange, state_);
    } catch (const ApiError& problem) {
      refuse(problem);
    } catch (const std::bad_alloc&) {
      refuse(ApiError(503, "not enough memory for this request"));
    } catch (const std::exception& problem) {
      refuse(ApiError(500, fmt::format("internal error: {}", problem.what())));
    }
  }

  ServerState state_;
  RequestLog log_;
  AccessRules access_;
  std::vector<Route> routes_;
  std::unique_ptr<EngineLoop> loop_;
  std::unique_ptr<GrammarCache> grammars_;
  std::unique_ptr<const Backend> backend_;
  boost::asio::thread_pool workers_;
  std::unique_ptr<HttpServer> http_;  // last: it calls what stands above
};

Server::Server(const ServerOptions& options) : implementation_(std::make_unique<Implementation>(options)) {}
Server::~Server() = default;
std::uint16_t Server::port() const { return implementation_->port(); }
std::string Server::url() const { return implementation_->url(); }
RequestLog& Server::log() { return implementation_->log(); }
void Server::serve(std::unique_ptr<Engine> engine) { implementation_->serve(std::move(engine)); }
bool Server::drain(std::chrono::milliseconds limit, const std::function<bool()>& hurry) {
  return implementation_->drain(limit, hurry);
}

}  // namespace rocmforge
