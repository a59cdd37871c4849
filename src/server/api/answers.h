#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "server/api/api_error.h"
#include "server/api/json.h"
#include "server/api/sampling_fields.h"
#include "service/fair_shares.h"
#include "service/model.h"
#include "service/stream.h"

namespace rocmforge {

/// One of the answers to a request. The text of one that is streamed is kept only for the log.
struct AnswerChoice : AnswerState {
  bool begun = false;  ///< its first event has been sent
};

/// The answers to one request, as the documents and events of all APIs tell of them.
struct Answers {
  /// `prefix` begins the id. Who knows the id may cancel the answers or, if they are stored, read them.
  Answers(const ServedModel& served, std::string_view prefix);

  const ServedModel& model;
  std::string id;
  std::int64_t created;  ///< seconds since 1970
  int count = 1;         ///< answers to one prompt
  std::vector<AnswerChoice> choices{};

  /// {"id", "object", "created", "model", "system_fingerprint"}
  [[nodiscard]] Json head(std::string_view object) const;
  /// Each prompt counts once.
  [[nodiscard]] Json usage() const;
};

/// In the form of llama-server.
Json timings_json(const RequestStats& stats);
/// The details of a usage: tokens of prompts that were not computed, and where some come from host memory or
/// files, from where. `from_host` includes those from files.
Json cached_details(std::int64_t cached, std::int64_t from_host, std::int64_t from_disk);
/// Adds the timings so far to an event of an output, where they are asked for.
void add_timings(Json& event, const StreamOptions& options, const AnswerChoice& choice, const StepOutput& output);
/// "stop" or "length"
std::string_view finish_text(FinishReason reason);

/// What an output with FinishReason::error or timeout means. `prompt_tokens`: of the longest prompt.
ApiError error_of_answer(const StepOutput& output, std::size_t prompt_tokens, const ServedModel& model,
                         std::optional<std::chrono::milliseconds> request_time);
/// 503
ApiError no_memory_for_answer();
/// Throws ApiError(400) where a request may never have so many.
void check_answer_count(std::size_t answers, const FairShares& places);
/// The salt of a request in the space of its client, with the model's secret; "" where it has neither space nor salt.
std::string salt_in_space(const ServedModel& model, const std::string& space, const std::string& salt);

}  // namespace rocmforge
