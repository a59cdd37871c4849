#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "load/load_clock.h"
#include "server/http/streaming_client.h"

namespace rocmforge::app {

/// The server's address, and the values that all requests share.
struct LoadTarget {
  std::string url;  ///< "http://127.0.0.1:8080"
  std::string api_key{};
  std::string model{};
  std::int32_t vocab = 0;
  std::vector<std::int32_t> forbidden{};  ///< tokens that answers must not have
  std::int32_t timeout_seconds = 600;
};

/// One request.
struct LoadRequest {
  double due = 0.0;  ///< when to send it; 0: at once
  std::int32_t prompt_tokens = 0;
  std::int32_t output_tokens = 0;
  std::uint64_t seed = 0;        ///< of the prompt's tokens
  std::int32_t drop_after = -1;  ///< the client disconnects after one piece of the answer more than this; -1: never
};

/// The result of a request. Times are seconds since the run began.
struct LoadSample {
  double start = 0.0;  ///< when it was sent, or was due
  double end = 0.0;
  std::vector<double> pieces{};  ///< when each piece of the answer came
  std::int32_t prompt_tokens = 0;
  std::int32_t cached_tokens = 0;
  std::int32_t output_tokens = 0;  ///< by the server's count; number of pieces if the client disconnected
  bool dropped = false;
  std::string error{};  ///< empty on success

  [[nodiscard]] double first_token_seconds() const { return pieces.front() - start; }
};

/// The model's name and vocabulary, as the server reports them. Throws Error when it can't be reached or no model is ready.
void find_model_of(LoadTarget& target);

/// A client with its own connection. Throws UsageError for a target that is no URL.
class LoadClient {
 public:
  LoadClient(const LoadTarget& target, LoadClock clock);
  /// A streamed completion of random tokens. An error is stored in the sample.
  LoadSample send(const LoadRequest& request);

 private:
  const LoadTarget* target_;
  LoadClock clock_;
  StreamingClient connection_;
};

}  // namespace rocmforge::app
