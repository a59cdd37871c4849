#pragma once

#include <cstdint>
#include <string>

#include "schedule/request.h"
#include "server/api/fields.h"
#include "server/api/served_model.h"

namespace rocmforge {

/// Reads the sampling fields and the conditions that end the answer, without the number of tokens: temperature,
/// top_p, top_k, min_p, typical_p, penalties, logit_bias, seed, stop, ignore_eos, priority. Missing ones have the model's
/// defaults (ServedModel::sampling).
void read_sampling(Fields& fields, const ServedModel& model, Request& request);

/// The seed (-1: a random one) and the numbers, as requests name them.
Json sampling_json(const SamplingParams& params);

/// `n` and `best_of`: at most `most` answers; best_of must not exceed n.
int read_count(Fields& fields, int most);

struct StreamOptions {
  bool stream = false;
  bool include_usage = false;
  bool timings_per_token = false;
};
StreamOptions read_stream(Fields& fields);

/// The most tokens an answer may have, by the first of these fields that is given: `max_completion_tokens`, `max_tokens`,
/// `n_predict`. -1: no limit. `n_predict` may be 0, the prompt alone; the others only with `takes_zero`.
std::int32_t read_max_tokens(Fields& fields, std::int32_t otherwise, bool takes_zero = false);

}  // namespace rocmforge
