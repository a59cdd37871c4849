#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <string>

#include "engine/engine.h"
#include "server/metrics/exposition.h"

namespace rocmforge {

/// What /metrics tells, under vLLM's names. Thread-safe. Each number is written where the thing happens: requests and tokens
/// by EngineLoop, connections by the routes.
class ServerMetrics {
 public:
  /// Bounds of the histograms of token counts reach `context_length`, once it is known.
  ServerMetrics();

  struct ModelLabels {
    std::string model;
    std::int32_t context_length = 0;
    Exposition::Labels cache;  ///< of cache_config_info
  };
  void set_model(ModelLabels labels);

  void submitted(std::int32_t count, std::int32_t max_tokens);
  /// A step is over.
  void stepped(const EngineStatus& status);
  /// The first token of a request `seconds` after it came, or a later one that long after the one before.
  void first_token(double seconds, std::int32_t prompt_tokens);
  void next_token(double seconds);
  /// A sequence has ended. `first_choice`: the prompt's numbers count here and not with the others of the same prompt.
  void finished(FinishReason reason, const RequestStats& stats, double seconds, bool first_choice);
  /// The last answer of a request has ended; the longest had so many tokens.
  void all_finished(std::int32_t longest);
  void rejected(std::string_view reason);
  void answered(int status);

  /// The text of /metrics.
  [[nodiscard]] std::string text() const;

 private:
  void describe_requests(Exposition& out) const;
  void describe_times(Exposition& out) const;

  mutable std::mutex mutex_;
  ModelLabels model_;
  EngineStatus status_;
  std::uint64_t prompt_tokens_ = 0;
  std::uint64_t cached_tokens_ = 0;
  std::uint64_t generation_tokens_ = 0;
  std::map<std::string, std::uint64_t> finished_;  ///< by reason
  std::map<std::string, std::uint64_t> rejected_;
  std::map<std::string, std::uint64_t> answered_;  ///< by HTTP status
  Histogram choices_, max_tokens_, most_generated_, request_prompt_, request_generation_, iteration_tokens_;
  Histogram first_token_seconds_, next_token_seconds_, mean_token_seconds_, prefill_token_seconds_;
  Histogram end_to_end_seconds_, queue_seconds_, inference_seconds_, prefill_seconds_, decode_seconds_;
};

}  // namespace rocmforge
