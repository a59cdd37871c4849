// Any bytes must give requests and answers: the parser and its checks, then every route that reads a body, up to the engine,
// which accepts no request.
#include <boost/asio/buffer.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>

#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>
#include <string_view>

#include "engine/fake_model.h"
#include "grammar/cache.h"
#include "server/http/http_head.h"
#include "server/routes.h"

namespace {

using namespace rocmforge;
namespace http = boost::beast::http;

/// Checks that the reply is one answer.
class CheckingReply final : public HttpReply {
 public:
  void send(HttpResponse response) override {
    if (response.status < 200 || response.status > 599 || std::exchange(answered_, true)) {
      std::abort();
    }
    while (response.more && response.more(response.body)) {
    }
    if (response.content_type == "application/json" && !Json::accept(response.body)) {
      std::abort();
    }
  }
  void begin(HttpResponse head) override { send(std::move(head)); }
  bool write(std::string_view) override { return true; }
  bool write_pieces(TextPieces) override { return true; }
  void end() override {}
  void drop() noexcept override {}
  void on_drop(std::function<void()>) override {}

 private:
  bool answered_ = false;
};

/// A server without sockets, whose engine has no room.
struct Target {
  Target() : log(std::make_shared<RequestLog>(LogOptions{.silent = true})) {
    ServiceOptions options;
    options.parallel = 0;
    options.max_waiting = 0;
    state.service->start(make_fake_engine({.kv_tokens = 256}, byte_tokenizer(), FakeModel::Kind::attention, 256).engine,
                         options);
    for (const Route& route : server_routes({})) {
      if (route.method == "POST") {
        routes.push_back(route);
      }
    }
  }
  ServerState state;
  std::shared_ptr<RequestLog> log;
  std::vector<Route> routes;
};

Target& target() {
  static Target only;
  return only;
}

void serve(HttpRequest request) {
  for (const Route& route : target().routes) {
    const auto exchange = std::make_shared<HttpExchange>(request, std::make_shared<CheckingReply>(), target().log,
                                                         target().state.service->models.metrics(), HttpHeaders{});
    try {
      route.serve(exchange, target().state);
    } catch (const ApiError& error) {
      exchange->send(error.response());
    } catch (const ServiceError& error) {
      exchange->send(ApiError(error).response());
    }
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  // A body alone, or a whole request.
  std::string_view bytes(reinterpret_cast<const char*>(data), size);
  if (bytes.starts_with('{')) {
    serve({.method = "POST", .path = "/fuzz", .body = std::string(bytes)});
    return 0;
  }
  while (!bytes.empty()) {
    http::request_parser<http::string_body> parser;
    parser.header_limit(16 << 10);
    parser.body_limit(1 << 20);
    parser.eager(true);
    boost::system::error_code error;
    const std::size_t used = parser.put(boost::asio::buffer(bytes.data(), bytes.size()), error);
    bytes.remove_prefix(used);
    if (error || !parser.is_done()) {
      return 0;
    }
    HttpRequest request;
    const auto& message = parser.get();
    request.method = std::string(message.method_string());
    for (const auto& field : message) {
      request.headers.emplace_back(field.name_string(), field.value());
    }
    if (check_head(request, message.version(), parser.chunked()).status != 0 ||
        !split_target({message.target().data(), message.target().size()}, request)) {
      return 0;
    }
    request.body = message.body();
    serve(std::move(request));
  }
  return 0;
}
