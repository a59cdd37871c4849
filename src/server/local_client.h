#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "server/model_service.h"
#include "server/router.h"

namespace rocmforge {

/// The routes of a server for callers in the same process: the same requests and answers, without a connection. Thread-safe;
/// a request blocks the calling thread until it is answered.
class LocalClient {
 public:
  /// Gets a part of a streamed answer, in the calling thread; false cancels the request.
  using TakePart = std::function<bool(std::string_view)>;

  /// `service` has been started. `more`: routes beside the server's.
  LocalClient(std::shared_ptr<ModelService> service, const ServerOptions& options, const std::vector<Route>& more = {});

  /// The answer to a request such as "POST", "/v1/chat/completions" and JSON. The parts of a streamed answer go to `take`,
  /// and the returned body is empty. A refusal has the form of the route's API. Rethrows what `take` throws, after
  /// cancelling the request.
  HttpResponse request(const std::string& method, const std::string& path, std::string body, const TakePart& take);

 private:
  ServerState state_;
  std::shared_ptr<RequestLog> log_;
  Router router_;
};

}  // namespace rocmforge
