#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <string>

#include "engine/engine.h"
#include "service/exposition.h"

namespace rocmforge {

/// The values of /metrics, under vLLM's names. Thread-safe. EngineLoop records requests and tokens,
/// the routes record connections.
class ServiceMetrics {
 public:
  /// The histograms of token counts have bounds up to `context_length`, once it is known.
  ServiceMetrics();

  struct ModelLabels {
    std::string model;
    std::int32_t context_length = 0;
    Exposition::Labels cache;  ///< of cache_config_info
  };
  void set_model(ModelLabels labels);

  void submitted(std::int32_t count, std::int32_t max_tokens);
  /// Call after each step.
  void stepped(const EngineStatus& status);
  /// A request's first token, `seconds` after the request arrived; or a later one, `seconds` after the one before.
  void first_token(double seconds, std::int32_t prompt_tokens);
  void next_token(double seconds);
  /// A sequence has ended. The numbers of a prompt are counted only for its `first_choice`.
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
