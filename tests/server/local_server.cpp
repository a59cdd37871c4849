#include "server/local_server.h"

#include <algorithm>
#include <cctype>
#include <utility>

namespace rocmforge {
namespace {

ServerOptions of_fake(TestServerOptions options) {
  options.server.parallel = options.engine.max_sequences;
  return options.server;
}

std::string in_lower_case(std::string text) {
  std::ranges::transform(text, text.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return text;
}

}  // namespace

LocalServer::LocalServer(TestServerOptions options, FakeModel::Script script, const std::vector<Route>& more)
    : LocalServer(fake_engine(options, std::move(script)), of_fake(options), more) {}

LocalServer::LocalServer(std::unique_ptr<Engine> engine, const ServerOptions& options, const std::vector<Route>& more) {
  tokenizer_ = engine->tokenizer();
  service_->start(std::move(engine), options);
  client_ = std::make_unique<LocalClient>(service_, options, more);
}

HttpAnswer LocalServer::request(const std::string& method, std::string_view path, std::string body) const {
  std::string parts;
  HttpResponse response = client_->request(method, std::string(path), std::move(body), [&](std::string_view part) {
    parts += part;
    return true;
  });
  HttpAnswer answer;
  answer.status = response.status;
  answer.complete = true;
  answer.headers["content-type"] = response.content_type;
  for (auto& [name, value] : response.headers) {
    answer.headers[in_lower_case(name)] = std::move(value);
  }
  answer.body = parts.empty() ? std::move(response.body) : std::move(parts);
  return answer;
}

std::unique_ptr<LocalServer> local_demo(const PlacementOptions& placement, std::int32_t ranks) {
  ServerOptions options = TestServerOptions().server;
  options.model_id = "forge-demo";
  options.model_path = demo_model().string();
  EngineOptions engine;
  engine.max_sequences = options.parallel;
  engine.device = "cpu";
  engine.kv_tokens = 8192;
  engine.placement = placement;
  engine.model.ranks = ranks;
  return std::make_unique<LocalServer>(load_model(demo_model().string(), engine), options);
}

}  // namespace rocmforge
