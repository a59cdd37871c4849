#include "load/load_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>
#include <numeric>

#include "base/json.h"
#include "base/printable.h"
#include "terminal/text.h"

namespace rocmforge::app {

Percentiles percentiles(std::vector<double> values) {
  if (values.empty()) {
    return {};
  }
  std::ranges::sort(values);
  const auto at = [&](double share) {
    const auto rank = static_cast<std::size_t>(std::ceil(share * static_cast<double>(values.size())));
    return values[std::clamp<std::size_t>(rank, 1, values.size()) - 1];
  };
  const double sum = std::accumulate(values.begin(), values.end(), 0.0);
  return {sum / static_cast<double>(values.size()), at(0.5), at(0.9), at(0.99), values.back()};
}

LoadSummary summarise(const LoadRun& run) {
  LoadSummary summary;
  std::vector<double> first;
  std::vector<double> gaps;
  std::vector<double> whole;
  for (const LoadSample& sample : run.samples) {
    if (!sample.error.empty()) {
      ++summary.failed;
      continue;
    }
    ++(sample.dropped ? summary.dropped : summary.completed);
    summary.prompt_tokens += sample.prompt_tokens;
    summary.cached_tokens += sample.cached_tokens;
    summary.output_tokens += sample.output_tokens;
    first.push_back(sample.first_token_seconds());
    for (std::size_t i = 1; i < sample.pieces.size(); ++i) {
      gaps.push_back(sample.pieces[i] - sample.pieces[i - 1]);
    }
    if (!sample.dropped) {
      whole.push_back(sample.end - sample.start);
    }
  }
  summary.requests_per_second = static_cast<double>(summary.completed) / run.seconds;
  summary.output_tokens_per_second = static_cast<double>(summary.output_tokens) / run.seconds;
  summary.total_tokens_per_second = static_cast<double>(summary.output_tokens + summary.prompt_tokens) / run.seconds;
  summary.first_token = percentiles(std::move(first));
  summary.inter_token = percentiles(std::move(gaps));
  summary.end_to_end = percentiles(std::move(whole));
  return summary;
}

void print_load(const LoadRun& run, const LoadSummary& summary) {
  fmt::print("{} at {}: {}, prompts of {}, answers of {} tokens, {:.1f} s\n\n", printable(run.target.model), run.target.url,
             run.arrivals, run.prompts, run.outputs, run.seconds);
  Table counts({">requests", ">completed", ">left by the client", ">failed", ">requests/s", ">output tokens/s",
                ">all tokens/s", ">prompt tokens cached"});
  counts.add({std::to_string(run.samples.size()), std::to_string(summary.completed), std::to_string(summary.dropped),
              std::to_string(summary.failed), fmt::format("{:.2f}", summary.requests_per_second),
              fmt::format("{:.1f}", summary.output_tokens_per_second),
              fmt::format("{:.1f}", summary.total_tokens_per_second),
              fmt::format("{} of {}", summary.cached_tokens, summary.prompt_tokens)});
  counts.print(stdout, true);
  fmt::print("\n");
  Table times({"ms", ">mean", ">p50", ">p90", ">p99", ">most"});
  const auto add = [&](const char* name, const Percentiles& seconds) {
    std::vector<std::string> row = {name};
    for (const double value : {seconds.mean, seconds.p50, seconds.p90, seconds.p99, seconds.most}) {
      row.push_back(fmt::format("{:.2f}", value * 1e3));
    }
    times.add(std::move(row));
  };
  add("time to first token", summary.first_token);
  add("inter-token latency", summary.inter_token);
  add("end to end", summary.end_to_end);
  times.print(stdout, true);
  std::map<std::string, int> errors;
  for (const LoadSample& sample : run.samples) {
    if (!sample.error.empty()) {
      ++errors[sample.error];
    }
  }
  for (const auto& [error, count] : errors) {
    fmt::print("\n{} x {}\n", count, error);
  }
}

std::string load_json(const LoadRun& run, const LoadSummary& summary) {
  using nlohmann::ordered_json;
  const auto times = [](const Percentiles& values) {
    return ordered_json{
        {"mean", values.mean}, {"p50", values.p50}, {"p90", values.p90}, {"p99", values.p99}, {"max", values.most}};
  };
  ordered_json requests = ordered_json::array();
  for (const LoadSample& sample : run.samples) {
    ordered_json entry{{"start", sample.start},
                       {"end", sample.end},
                       {"prompt_tokens", sample.prompt_tokens},
                       {"cached_tokens", sample.cached_tokens},
                       {"output_tokens", sample.output_tokens},
                       {"dropped", sample.dropped}};
    if (!sample.pieces.empty()) {
      entry["ttft"] = sample.first_token_seconds();
    }
    if (!sample.error.empty()) {
      entry["error"] = sample.error;
    }
    requests.push_back(std::move(entry));
  }
  return ordered_json{{"model", run.target.model},
                      {"url", run.target.url},
                      {"arrivals", run.arrivals},
                      {"prompt_lengths", run.prompts},
                      {"output_lengths", run.outputs},
                      {"seconds", run.seconds},
                      {"completed", summary.completed},
                      {"dropped", summary.dropped},
                      {"failed", summary.failed},
                      {"prompt_tokens", summary.prompt_tokens},
                      {"cached_tokens", summary.cached_tokens},
                      {"output_tokens", summary.output_tokens},
                      {"requests_per_second", summary.requests_per_second},
                      {"output_tokens_per_second", summary.output_tokens_per_second},
                      {"total_tokens_per_second", summary.total_tokens_per_second},
                      {"ttft_seconds", times(summary.first_token)},
                      {"itl_seconds", times(summary.inter_token)},
                      {"e2e_seconds", times(summary.end_to_end)},
                      {"requests", std::move(requests)}}
             .dump(1, ' ', false, ordered_json::error_handler_t::replace) +
         "\n";
}

}  // namespace rocmforge::app
