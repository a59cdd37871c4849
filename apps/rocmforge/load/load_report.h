#pragma once

#include <string>
#include <vector>

#include "load/load_client.h"

namespace rocmforge::app {

struct LoadRun {
  LoadTarget target;
  std::string arrivals;  ///< "32 at once", "4 a second"
  std::string prompts;   ///< lengths as given
  std::string outputs;
  double seconds = 0.0;
  std::vector<LoadSample> samples;  ///< in the order in which they ended
};

/// Mean, median and tails of one quantity, by nearest rank; zeros without values.
struct Percentiles {
  double mean = 0.0;
  double p50 = 0.0;
  double p90 = 0.0;
  double p99 = 0.0;
  double most = 0.0;
};
Percentiles percentiles(std::vector<double> values);

struct LoadSummary {
  std::size_t completed = 0;
  std::size_t dropped = 0;
  std::size_t failed = 0;
  std::int64_t prompt_tokens = 0;
  std::int64_t cached_tokens = 0;
  std::int64_t output_tokens = 0;  ///< including those of clients that disconnected
  double requests_per_second = 0.0;
  double output_tokens_per_second = 0.0;
  double total_tokens_per_second = 0.0;
  Percentiles first_token;  ///< seconds; of requests that got one
  Percentiles inter_token;  ///< seconds between two pieces
  Percentiles end_to_end;   ///< seconds; of completed requests
};
LoadSummary summarise(const LoadRun& run);

/// Two tables on standard output, and the errors with their numbers.
void print_load(const LoadRun& run, const LoadSummary& summary);
/// All of that and one entry a request. Times are seconds since the run began.
std::string load_json(const LoadRun& run, const LoadSummary& summary);
/// Output tokens a second and requests at work over time, and each request's time to its first token.
std::string load_svg(const LoadRun& run);

}  // namespace rocmforge::app
