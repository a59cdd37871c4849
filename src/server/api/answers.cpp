#include "server/api/answers.h"

#include <fmt/format.h>

#include <algorithm>

#include "server/http_exchange.h"

namespace rocmforge {
namespace {

constexpr std::size_t most_answers = 2048;  // of one request
constexpr std::string_view fingerprint = "b-rocmforge";

double per_second(double count, double seconds) { return seconds > 0.0 ? count / seconds : 0.0; }

/// The part of timings_json() that is known while the answer is generated.
Json decode_timings(const RequestStats& stats) {
  const double predicted = stats.generated_tokens;
  Json json = {{"predicted_n", stats.generated_tokens},
               {"predicted_ms", stats.decode_seconds * 1e3},
               {"predicted_per_token_ms", predicted > 1 ? stats.decode_seconds * 1e3 / (predicted - 1) : 0.0},
               {"predicted_per_second", per_second(predicted - 1, stats.decode_seconds)}};
  if (stats.drafted_tokens > 0) {
    json["draft_n"] = stats.drafted_tokens;
    json["draft_n_accepted"] = stats.accepted_tokens;
  }
  return json;
}

}  // namespace

Answers::Answers(const ServedModel& served, std::string_view prefix)
    : model(served),
      id(fmt::format("{}{}", prefix, random_id())),
      created(
          std::chrono::duration_cast<std::chrono::seconds>(std::chrono::system_clock::now().time_since_epoch()).count()) {}

Json Answers::head(std::string_view object) const {
  return {{"id", id}, {"object", object}, {"created", created}, {"model", model.id}, {"system_fingerprint", fingerprint}};
}

Json cached_details(std::int64_t cached, std::int64_t from_host, std::int64_t from_disk) {
  Json json = {{"cached_tokens", cached}};
  if (from_host > 0) {
    json["cached_tokens_details"] = {{"device", cached - from_host}, {"host", from_host - from_disk}, {"disk", from_disk}};
  }
  return json;
}

Json Answers::usage() const {
  std::int64_t prompt = 0;
  std::int64_t cached = 0;
  std::int64_t from_host = 0;
  std::int64_t from_disk = 0;
  std::int64_t completion = 0;
  for (std::size_t i = 0; i < choices.size(); ++i) {
    const RequestStats& stats = choices[i].stats;
    if (i % static_cast<std::size_t>(count) == 0) {
      prompt += stats.prompt_tokens;
      cached += stats.cached_tokens;
      from_host += stats.host_tokens;
      from_disk += stats.disk_tokens;
    }
    completion += stats.generated_tokens;
  }
  return {{"prompt_tokens", prompt},
          {"completion_tokens", completion},
          {"total_tokens", prompt + completion},
          {"prompt_tokens_details", cached_details(cached, from_host, from_disk)},
          {"completion_tokens_details", {{"reasoning_tokens", 0}}}};
}

Json timings_json(const RequestStats& stats) {
  const double computed = stats.prompt_tokens - stats.cached_tokens;
  const double prompt_seconds = std::max(0.0, stats.prompt_seconds - stats.queue_seconds);
  Json json = {{"cache_n", stats.cached_tokens},
               {"prompt_n", stats.prompt_tokens - stats.cached_tokens},
               {"prompt_ms", prompt_seconds * 1e3},
               {"prompt_per_token_ms", computed > 0 ? prompt_seconds * 1e3 / computed : 0.0},
               {"prompt_per_second", per_second(computed, prompt_seconds)}};
  if (stats.host_tokens > 0) {
    json["cache_host_n"] = stats.host_tokens - stats.disk_tokens;
    json["cache_disk_n"] = stats.disk_tokens;
  }
  json.update(decode_timings(stats));
  return json;
}

void add_timings(Json& event, const StreamOptions& options, const AnswerChoice& choice, const StepOutput& output) {
  if (options.timings_per_token && !event.contains("timings")) {
    event["timings"] = output.finish == FinishReason::none ? decode_timings(choice.stats) : timings_json(choice.stats);
  }
}

// A cancelled answer was cut short; OpenAI's list has no better word for it.
std::string_view finish_text(FinishReason reason) { return reason == FinishReason::stop ? "stop" : "length"; }

ApiError error_of_answer(const StepOutput& output, std::size_t prompt_tokens, const ServedModel& model,
                         std::optional<std::chrono::milliseconds> request_time) {
  if (output.finish == FinishReason::timeout) {
    return took_too_long(request_time.value_or(std::chrono::milliseconds(0)));
  }
  switch (output.error) {
    case RequestError::too_long: {
      // The words by which clients of both vendors know it.
      ApiError error(400,
                     fmt::format("prompt is too long: {} tokens > {} maximum, which is this model's maximum context length",
                                 prompt_tokens, model.context_length),
                     "", "context_length_exceeded");
      error.type = "exceed_context_size_error";
      error.details = {{"n_prompt_tokens", prompt_tokens}, {"n_ctx", model.context_length}};
      return error;
    }
    case RequestError::queue_full: {
      ApiError error(429, output.text);
      error.retry_after_seconds = 1;
      return error;
    }
    case RequestError::no_memory:
      return no_memory_for_answer();
    case RequestError::invalid:
      return ApiError(400, output.text);
    case RequestError::none:
      break;
  }
  return ApiError(500, output.text);
}

ApiError no_memory_for_answer() {
  ApiError error(503, "not enough memory for this answer");
  error.retry_after_seconds = 1;
  return error;
}

void check_answer_count(std::size_t answers, const FairShares& places) {
  const std::size_t most = std::min(most_answers, static_cast<std::size_t>(places.most_alone()));
  if (answers > most) {
    throw ApiError(400, fmt::format("the request asks for {} answers, the server takes at most {} at once", answers, most));
  }
}

std::string salt_in_space(const ServedModel& model, const std::string& space, const std::string& salt) {
  return space.empty() && salt.empty() ? "" : fmt::format("{} {}\n{}", model.salt_secret, space, salt);
}

}  // namespace rocmforge
