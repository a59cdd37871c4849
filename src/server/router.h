#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "server/routes.h"

namespace rocmforge {

/// Finds the route of a request and runs it, for a server and for callers in the same process. Thread-safe.
class Router {
 public:
  explicit Router(std::vector<Route> routes) : routes_(std::move(routes)) {}

  struct Found {
    const Route* route = nullptr;  ///< null: no route serves it
    bool path_known = false;       ///< by another method at least
    std::string_view part{};       ///< of the path, for the name in braces
  };
  /// HEAD is served as GET. "/v1/models/" is "/v1/models": clients join paths in either way.
  [[nodiscard]] Found find(std::string_view method, std::string_view path) const;

  /// Makes the request what its route expects: its path has no slash at the end, and the route and the part for the braces
  /// are known.
  static void prepare(HttpRequest& request, const Found& found);
  /// The refusal of a request that no route serves: 405 for a known path, else 404.
  static ApiError unserved(const Found& found, std::string_view method, std::string_view path);

  /// Calls the function. Returns the error for a client that its exception stands for.
  static std::optional<ApiError> error_of(const std::function<void()>& function);
  /// Runs the route in this thread. Returns why the request is refused, if it is.
  static std::optional<ApiError> serve(const Route& route, const std::shared_ptr<HttpExchange>& exchange,
                                       ServerState& state);
  /// Sends the refusal in the route's form. The reason is what stopped the reading, not the exception that the reader saw.
  static void refuse(const Route& route, HttpExchange& exchange, const ServerState& state, const ApiError& found);

 private:
  std::vector<Route> routes_;
};

/// The server accepts no more requests (503).
ApiError shutting_down();

}  // namespace rocmforge
