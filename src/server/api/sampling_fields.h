#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "schedule/request.h"
#include "server/api/fields.h"
#include "service/model.h"

namespace rocmforge {

/// What an API calls otherwise than OpenAI's chat completions do.
struct ApiFields {
  std::string_view stop = "stop";              ///< the texts that end an answer
  std::string_view max_tokens = "max_tokens";  ///< how long an answer may be
  bool streams = false;                        ///< answers without the field `stream` are streamed
  bool has_stream_options = true;              ///< `stream_options` says more of the stream
  bool limit_in_options = false;               ///< a limit that is known already counts before `n_predict`
};

/// A request with the model's defaults (ServedModel::sampling).
Request new_request(const ServedModel& model);

/// Reads the sampling fields and the conditions that end the answer, without the number of tokens: temperature,
/// top_p, top_k, min_p, typical_p, penalties, logit_bias, seed, stop, ignore_eos, priority, lora and the adapter that
/// `model` names. What is missing stays as it is.
void read_sampling(Fields& fields, const ServedModel& model, Request& request, const ApiFields& api = {});
/// The numbers among them, and the seed.
void read_sampling_numbers(Fields& fields, SamplingParams& params);
/// The texts that end an answer: a string or an array of strings.
void read_stop(Fields& fields, std::string_view name, Request& request);

/// The seed (-1: a random one) and the numbers, as requests name them.
Json sampling_json(const SamplingParams& params);

/// `n` and `best_of`: at most `most` answers; best_of must not exceed n.
int read_count(Fields& fields, int most);

struct StreamOptions {
  bool stream = false;
  bool include_usage = false;
  bool timings_per_token = false;
};
StreamOptions read_stream(Fields& fields, const ApiFields& api = {});

/// The most tokens an answer may have, by the first of these fields that is given: `max_completion_tokens`, the API's
/// own name, `max_tokens`, `n_predict`. -1: no limit. `n_predict` may be 0, the prompt alone; the others only with
/// `takes_zero`.
std::int32_t read_max_tokens(Fields& fields, std::int32_t otherwise, bool takes_zero = false, const ApiFields& api = {});

}  // namespace rocmforge
