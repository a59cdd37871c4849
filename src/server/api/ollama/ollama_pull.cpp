#include "server/api/ollama/ollama_pull.h"

#include <fmt/format.h>

#include <chrono>
#include <exception>
#include <new>
#include <optional>
#include <system_error>

#include "base/printable.h"
#include "server/api/api_error.h"
#include "server/api/fields.h"
#include "server/api/ollama/ollama.h"

namespace rocmforge {
namespace {

using PullClock = std::chrono::steady_clock;

Json line_of(const PullStatus& status) {
  Json line = {{"status", status.status}};
  if (!status.digest.empty()) {
    line["digest"] = status.digest;
    line["total"] = status.total;
    line["completed"] = status.completed;
  }
  return line;
}

void begin_lines(HttpExchange& exchange) {
  exchange.begin(
      {.content_type = "application/x-ndjson", .headers = {{"Cache-Control", "no-cache"}, {"X-Accel-Buffering", "no"}}});
}

/// Writes the lines of one download: each new state, and the number of bytes at most ten times a second.
class PullLines {
 public:
  explicit PullLines(HttpExchange& exchange) : exchange_(exchange) {}

  /// Returns false if the client has disconnected.
  bool tell(const PullStatus& status) {
    const auto now = PullClock::now();
    const bool is_end = status.total > 0 && status.completed == status.total;
    if (status.status == last_ && !is_end && now - last_time_ < std::chrono::milliseconds(100)) {
      return true;
    }
    last_ = status.status;
    last_time_ = now;
    return exchange_.write(to_text(line_of(status)) + "\n");
  }

 private:
  HttpExchange& exchange_;
  std::string last_;
  PullClock::time_point last_time_{};
};

}  // namespace

void ModelPulls::start(const std::shared_ptr<HttpExchange>& exchange, const PullFunction& pull, const PullRequest& request,
                       bool streams) {
  const std::scoped_lock lock(mutex_);
  if (busy_ || stopping_) {
    throw ApiError(503, stopping_ ? "the server is shutting down" : "another model is being downloaded: one at a time");
  }
  try {
    thread_ = std::jthread([this, exchange, &pull, request, streams] { run(*exchange, pull, request, streams); });
  } catch (const std::system_error& error) {
    throw ApiError(503, fmt::format("there is no thread for a download: {}", error.what()));
  }
  busy_ = true;
}

void ModelPulls::stop() {
  interrupt();
  if (thread_.joinable()) {
    thread_.join();
  }
}

std::string ModelPulls::download(HttpExchange& exchange, const PullFunction& pull, const PullRequest& request,
                                 bool streams) {
  try {
    PullLines lines(exchange);
    pull(request, [&](const PullStatus& status) {
      return !stopping_ && exchange.interruption() == Interruption::none && (!streams || lines.tell(status));
    });
    return "";
  } catch (const std::bad_alloc&) {
    throw;
  } catch (const std::exception& error) {
    return printable(error.what(), longest_line);
  }
}

void ModelPulls::run(HttpExchange& exchange, const PullFunction& pull, const PullRequest& request, bool streams) noexcept {
  bool is_over = false;
  // Called before the answer ends: a client that has read it may start the next download, which joins this thread.
  const auto make_way = [&] {
    if (!is_over) {
      const std::scoped_lock lock(mutex_);
      busy_ = false;
      is_over = true;
    }
  };
  try {
    if (streams) {
      begin_lines(exchange);
    }
    const std::string problem = download(exchange, pull, request, streams);
    make_way();
    if (!problem.empty()) {
      exchange.note("error", problem);
    }
    if (streams) {
      exchange.write(to_text(problem.empty() ? Json{{"status", "success"}} : Json{{"error", problem}}) + "\n");
      exchange.end();
    } else if (problem.empty()) {
      exchange.send_json({{"status", "success"}});
    } else {
      exchange.send(ApiError(500, problem).response(ollama_error));
    }
  } catch (const std::exception&) {  // no memory to report the problem
    make_way();
    exchange.drop();
  }
}

void serve_ollama_pull(const std::shared_ptr<HttpExchange>& exchange, const ServerOptions& options, ModelPulls& pulls) {
  const Document body(exchange->take_json());
  Fields fields(body.root);
  fields.ignore({"insecure", "username", "password"});
  const std::optional<std::string> model = fields.text("model");
  const std::string name = model ? *model : fields.needed_text("name");
  const bool streams = fields.boolean("stream").value_or(true);
  if (name == options.model_id) {
    if (!streams) {
      return exchange->send_json({{"status", "success"}});
    }
    begin_lines(*exchange);
    exchange->write("{\"status\":\"success\"}\n");
    return exchange->end();
  }
  if (!options.pull) {
    throw ApiError(403, fmt::format("this server serves {} alone; it downloads models for clients only with --allow-pull",
                                    printable(options.model_id, 200)));
  }
  const bool has_key = !exchange->request.owner.empty();
  pulls.start(exchange, options.pull, {.name = name, .with_token = has_key || options.pull_token}, streams);
}

}  // namespace rocmforge
