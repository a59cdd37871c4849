#include "server/running_server.h"

#include <algorithm>
#include <fstream>
#include <iterator>
#include <thread>
#include <utility>

#include "server/client.h"

namespace rocmforge {

std::unique_ptr<Engine> fake_engine(const TestServerOptions& options, FakeModel::Script script) {
  FakeEngine fake = make_fake_engine(options.engine, options.tokenizer, FakeModel::Kind::attention, options.context_length,
                                     options.encoder);
  fake.model->set_pooling(options.pooling);
  if (script) {
    fake.model->follow(std::move(script));
  }
  return std::move(fake.engine);
}

FakeServer::FakeServer(TestServerOptions options, FakeModel::Script script) {
  options.server.parallel = options.engine.max_sequences;
  if (options.server.log.file.empty()) {
    options.server.log.file = folder_.write("log", "");
  }
  server_ = std::make_unique<Server>(options.server);
  server_->serve(fake_engine(options, std::move(script)));
}

std::string FakeServer::log() const {
  std::ifstream file(folder_.path() / "log");
  return {std::istreambuf_iterator<char>(file), {}};
}

double FakeServer::metric(const std::string& name) const {
  const std::string text = get(port(), "/metrics").body;
  const std::size_t brace = name.find('{');
  std::string line = "\nrocmforge:" + name.substr(0, brace) + "{model_name=\"model\",engine=\"0\"";
  if (brace != std::string::npos) {
    line += "," + name.substr(brace + 1);
  }
  const std::size_t at = text.find(line + "} ");
  return at == std::string::npos ? -1.0 : std::stod(text.substr(at + line.size() + 2));
}

bool FakeServer::becomes_idle() const {
  for (int i = 0; i < 6000; ++i) {  // at least a minute, because the machine may be busy
    if (metric("num_requests_running") == 0.0 && metric("num_requests_waiting") == 0.0) {
      return true;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return false;
}

FakeModel::Script say(std::string text, std::chrono::milliseconds pause, char mark) {
  return [text = std::move(text), pause, mark](const FakeModel::Tokens& visible) {
    std::this_thread::sleep_for(pause);
    const auto found = std::find(visible.rbegin(), visible.rend(), byte_ids(std::string(1, mark)).front());
    const auto said = static_cast<std::size_t>(found - visible.rbegin());
    return said < text.size() ? byte_ids(text.substr(said, 1)).front() : end_token;
  };
}

}  // namespace rocmforge
