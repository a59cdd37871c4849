#include "service/metrics.h"

#include <algorithm>
#include <new>
#include <utility>
#include <vector>

namespace rocmforge {
namespace {

/// 1, 2, 5, 10 ... up to `most`, vLLM's bounds for the model's limit.
std::vector<double> one_two_five(std::int32_t most) {
  std::vector<double> bounds;
  for (double power = 1.0; power <= most; power *= 10.0) {
    for (const double step : {1.0, 2.0, 5.0}) {
      if (step * power <= most) {
        bounds.push_back(step * power);
      }
    }
  }
  return bounds;
}

constexpr std::int32_t unknown_context = 131'072;

const std::vector<double> first_token_bounds = {.001, .005, .01, .02, .04, .06, .08, .1, .25, .5,  .75,
                                                1,    2.5,  5,   7.5, 10,  20,  40,  80, 160, 640, 2560};
// Finer at the start than vLLM's: a small model's token takes a millisecond.
const std::vector<double> token_bounds = {.001, .0025, .005, .01, .025, .05, .075, .1, .15, .2, .3,
                                          .4,   .5,    .75,  1,   2.5,  5,   7.5,  10, 20,  40, 80};
const std::vector<double> prefill_token_bounds = {.0001, .0002, .0005, .001, .002, .005, .01, .02, .05, .1, .2, .5, 1};
const std::vector<double> request_bounds = {.05, .1, .2, .3, .5, .8, 1,   1.5, 2,   2.5, 5,    10,
                                            15,  20, 30, 40, 50, 60, 120, 240, 480, 960, 1920, 7680};

/// Without memory for a new label, its first count is lost.
void count(std::map<std::string, std::uint64_t>& counts, std::string_view key) noexcept {
  try {
    ++counts[std::string(key)];
  } catch (const std::bad_alloc&) {
  }
}

std::vector<std::pair<std::string, std::uint64_t>> pairs(const std::map<std::string, std::uint64_t>& map) {
  return {map.begin(), map.end()};
}

}  // namespace

ServiceMetrics::ServiceMetrics()
    : choices_({1, 2, 5, 10, 20}),
      max_tokens_(one_two_five(unknown_context)),
      most_generated_(one_two_five(unknown_context)),
      request_prompt_(one_two_five(unknown_context)),
      request_generation_(one_two_five(unknown_context)),
      iteration_tokens_({1, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384}),
      first_token_seconds_(first_token_bounds),
      next_token_seconds_(token_bounds),
      mean_token_seconds_(token_bounds),
      prefill_token_seconds_(prefill_token_bounds),
      end_to_end_seconds_(request_bounds),
      queue_seconds_(request_bounds),
      inference_seconds_(request_bounds),
      prefill_seconds_(request_bounds),
      decode_seconds_(request_bounds) {
  for (const FinishReason reason :
       {FinishReason::stop, FinishReason::length, FinishReason::context, FinishReason::cancelled, FinishReason::timeout}) {
    finished_.emplace(name(reason), 0);  // a counter that is missing until its first event can't be watched
  }
  rejected_.emplace("queue_full", 0);
}

void ServiceMetrics::set_model(ModelLabels labels) {
  const std::lock_guard lock(mutex_);
  model_ = std::move(labels);
  for (Histogram* histogram : {&max_tokens_, &most_generated_, &request_prompt_, &request_generation_}) {
    *histogram = Histogram(one_two_five(model_.context_length));
  }
}

void ServiceMetrics::submitted(std::int32_t count, std::int32_t max_tokens) {
  const std::lock_guard lock(mutex_);
  choices_.observe(count);
  if (max_tokens >= 0) {
    max_tokens_.observe(max_tokens);
  }
}

void ServiceMetrics::stepped(const EngineStatus& status) {
  const std::lock_guard lock(mutex_);
  if (status.steps > status_.steps) {
    iteration_tokens_.observe(status.step_tokens);
  }
  status_ = status;
}

void ServiceMetrics::first_token(double seconds, std::int32_t prompt_tokens) {
  const std::lock_guard lock(mutex_);
  first_token_seconds_.observe(seconds);
  prompt_tokens_ += static_cast<std::uint64_t>(prompt_tokens);
  ++generation_tokens_;
}

void ServiceMetrics::next_token(double seconds) {
  const std::lock_guard lock(mutex_);
  next_token_seconds_.observe(seconds);
  ++generation_tokens_;
}

void ServiceMetrics::finished(FinishReason reason, const RequestStats& stats, double seconds, bool first_choice) {
  const std::lock_guard lock(mutex_);
  count(finished_, name(reason));
  if (reason == FinishReason::error) {
    return;
  }
  if (first_choice) {
    request_prompt_.observe(stats.prompt_tokens);
    cached_tokens_ += static_cast<std::uint64_t>(stats.cached_tokens);
  }
  request_generation_.observe(stats.generated_tokens);
  end_to_end_seconds_.observe(seconds);
  queue_seconds_.observe(stats.queue_seconds);
  const double prefill = std::max(0.0, stats.prompt_seconds - stats.queue_seconds);
  prefill_seconds_.observe(prefill);
  if (const std::int32_t computed = stats.prompt_tokens - stats.cached_tokens; computed > 0 && prefill > 0.0) {
    prefill_token_seconds_.observe(prefill / computed);
  }
  decode_seconds_.observe(stats.decode_seconds);
  inference_seconds_.observe(prefill + stats.decode_seconds);
  if (stats.generated_tokens > 1) {
    mean_token_seconds_.observe(stats.decode_seconds / (stats.generated_tokens - 1));
  }
}

void ServiceMetrics::all_finished(std::int32_t longest) {
  const std::lock_guard lock(mutex_);
  most_generated_.observe(longest);
}

void ServiceMetrics::rejected(std::string_view reason) {
  const std::lock_guard lock(mutex_);
  count(rejected_, reason);
}

void ServiceMetrics::answered(int status) {
  const std::lock_guard lock(mutex_);
  count(answered_, std::to_string(status));  // three digits: allocates nothing
}

void ServiceMetrics::describe_requests(Exposition& out) const {
  out.gauge("num_requests_running", "Requests in a batch", status_.running);
  out.gauge("num_requests_waiting", "Requests that wait for room", status_.waiting);
  const double blocks = std::max(1, status_.kv_blocks);
  out.gauge("kv_cache_usage_perc", "Part of the KV cache in use, 1 when full",
            (status_.kv_blocks - status_.free_blocks - status_.evictable_blocks) / blocks);
  out.counter("prefix_cache_queries", "Prompt tokens looked up in the prefix cache",
              static_cast<double>(status_.prefix_queries));
  const std::int64_t device_hits = status_.prefix_hits - status_.host_hits;
  out.counter("prefix_cache_hits", "Of those, found on the device", static_cast<double>(device_hits));
  out.counter("external_prefix_cache_queries", "Prompt tokens looked up in host memory",
              status_.max_host_bytes > 0 ? static_cast<double>(status_.prefix_queries - device_hits) : 0.0);
  out.counter("external_prefix_cache_hits", "Of those, found", static_cast<double>(status_.host_hits));
  out.gauge("host_cache_usage_perc", "Part of the prompt cache in host memory in use, 1 when full",
            status_.max_host_bytes > 0
                ? static_cast<double>(status_.host_bytes) / static_cast<double>(status_.max_host_bytes)
                : 0.0);
  out.gauge("host_cache_bytes", "Bytes of prompts in host memory", static_cast<double>(status_.host_bytes));
  out.counter("disk_cache_loads", "Prompt tokens read from files into host memory", static_cast<double>(status_.disk_loads));
  out.gauge("disk_cache_bytes", "Bytes of prompts in files", static_cast<double>(status_.disk_bytes));
  out.counter("num_preemptions", "Sequences that gave their blocks to another", static_cast<double>(status_.preemptions));
  out.counter("spec_decode_num_drafts", "Drafts, each for one sequence in one step", static_cast<double>(status_.drafts));
  out.counter("spec_decode_num_draft_tokens", "Their tokens", static_cast<double>(status_.drafted_tokens));
  out.counter("spec_decode_num_accepted_tokens", "Of those, drawn", static_cast<double>(status_.accepted_tokens));
  out.counter("prompt_tokens", "Tokens of prompts", static_cast<double>(prompt_tokens_));
  out.counter("prompt_tokens_cached", "Of those, not computed", static_cast<double>(cached_tokens_));
  out.counter("generation_tokens", "Tokens drawn", static_cast<double>(generation_tokens_));
  out.counters("request_success", "Sequences that have ended", "finished_reason", pairs(finished_));
  out.counters("request_rejected", "Requests that were not taken", "reason", pairs(rejected_));
  out.counters("http_responses", "Answers by HTTP status", "status", pairs(answered_));
  out.histogram("request_prompt_tokens", "Tokens of a prompt", request_prompt_);
  out.histogram("request_generation_tokens", "Tokens of an answer", request_generation_);
  out.histogram("request_max_num_generation_tokens", "Tokens of a request's longest answer", most_generated_);
  out.histogram("request_params_max_tokens", "max_tokens of a request", max_tokens_);
  out.histogram("request_params_n", "Answers asked for by a request", choices_);
  out.histogram("iteration_tokens_total", "Tokens computed in a step", iteration_tokens_);
}

void ServiceMetrics::describe_times(Exposition& out) const {
  out.histogram("time_to_first_token_seconds", "From a request's arrival to its first token", first_token_seconds_);
  out.histogram("inter_token_latency_seconds", "Between two tokens of an answer", next_token_seconds_);
  out.histogram("time_per_output_token_seconds", "The mean of that for one answer", mean_token_seconds_);
  out.histogram("e2e_request_latency_seconds", "From a request's arrival to its last token", end_to_end_seconds_);
  out.histogram("request_queue_time_seconds", "Before the first step", queue_seconds_);
  out.histogram("request_inference_time_seconds", "From the first step to the last token", inference_seconds_);
  out.histogram("request_prefill_time_seconds", "From the first step to the first token", prefill_seconds_);
  out.histogram("time_per_prefill_token_request_seconds", "Of a request's prompt tokens that were computed",
                prefill_token_seconds_);
  out.histogram("request_decode_time_seconds", "From the first token to the last", decode_seconds_);
}

std::string ServiceMetrics::text() const {
  const std::lock_guard lock(mutex_);
  Exposition out({{"model_name", model_.model}, {"engine", "0"}});
  describe_requests(out);
  describe_times(out);
  if (!model_.cache.empty()) {
    out.gauge("cache_config_info", "How the KV cache is set up", 1.0, model_.cache);
  }
  return out.text();
}

}  // namespace rocmforge
