#include "server/router.h"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <new>
#include <string>

namespace rocmforge {
namespace {

std::string_view without_trailing_slashes(std::string_view path) {
  return path.substr(0, std::max<std::size_t>(path.find_last_not_of('/') + 1, 1));
}

/// The part of `path` for the braces of `pattern`, "" for a pattern without any; empty where they differ.
std::optional<std::string_view> part_of(std::string_view pattern, std::string_view path) {
  const std::size_t open = pattern.find('{');
  if (open == std::string_view::npos) {
    return path == pattern ? std::optional(std::string_view()) : std::nullopt;
  }
  const std::string_view before = pattern.substr(0, open), after = pattern.substr(pattern.find('}', open) + 1);
  const bool matches = path.size() > before.size() + after.size() && path.starts_with(before) && path.ends_with(after);
  return matches ? std::optional(path.substr(before.size(), path.size() - before.size() - after.size())) : std::nullopt;
}

/// Why the reading was stopped, if it was.
std::optional<ApiError> why_stopped(HttpExchange& exchange, const ServerState& state) {
  switch (exchange.interruption()) {
    case Interruption::client_left:
      exchange.note("client_left", true);
      return ApiError(499, "the client has left");
    case Interruption::time:
      return took_too_long(state.options.request_time.value_or(std::chrono::milliseconds(0)));
    case Interruption::shutdown:
      return shutting_down();
    case Interruption::none:
      break;
  }
  if (exchange.reading.budget.spent() < exchange.reading.budget.units()) {
    return std::nullopt;
  }
  try {
    exchange.reading.budget.spend(1);
  } catch (const Error& error) {
    return ApiError(400, error.what());
  }
  return std::nullopt;
}

}  // namespace

ApiError shutting_down() {
  ApiError error(503, "the server is shutting down");
  error.retry_after_seconds = 1;
  return error;
}

Router::Found Router::find(std::string_view method, std::string_view path) const {
  Found found;
  path = without_trailing_slashes(path);
  method = method == "HEAD" ? "GET" : method;
  for (const Route& route : routes_) {
    if (const auto part = part_of(route.path, path)) {
      found.path_known = true;
      if (route.method == method) {
        found.route = &route;
        found.part = *part;
        return found;
      }
    }
  }
  return found;
}

void Router::prepare(HttpRequest& request, const Found& found) {
  request.route = found.route;
  request.path_part = found.part;  // first: it is a view of the path
  request.path.resize(without_trailing_slashes(request.path).size());
}

ApiError Router::unserved(const Found& found, std::string_view method, std::string_view path) {
  return found.path_known ? ApiError(405, fmt::format("{} is not for {}", path.substr(0, 64), method.substr(0, 16)))
                          : ApiError(404, fmt::format("there is no {}", path.substr(0, 64)));
}

std::optional<ApiError> Router::error_of(const std::function<void()>& function) {
  try {
    function();
    return std::nullopt;
  } catch (const ApiError& problem) {
    return problem;
  } catch (const ServiceError& problem) {
    return ApiError(problem);
  } catch (const std::bad_alloc&) {
    ApiError lacking(503, "not enough memory for this request");
    lacking.retry_after_seconds = 1;
    return lacking;
  } catch (const std::exception& problem) {
    return ApiError(500, fmt::format("internal error: {}", problem.what()));
  }
}

std::optional<ApiError> Router::serve(const Route& route, const std::shared_ptr<HttpExchange>& exchange,
                                      ServerState& state) {
  return error_of([&] {
    if (exchange->log().shows_texts() && !exchange->request.body.empty()) {
      exchange->note("body", exchange->request.body);
    }
    exchange->reading.budget.spend(0);
    route.serve(exchange, state);
    exchange->settle();
  });
}

void Router::refuse(const Route& route, HttpExchange& exchange, const ServerState& state, const ApiError& found) {
  const std::optional<ApiError> stopped = why_stopped(exchange, state);
  const ApiError& problem = stopped ? *stopped : found;
  if (problem.status == 429) {
    state.service->models.metrics().rejected("queue_full");
  }
  exchange.note("error", problem.message);
  exchange.send(problem.response(route.error));
}

}  // namespace rocmforge
