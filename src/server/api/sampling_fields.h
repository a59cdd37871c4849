#pragma once

#include <cstdint>
#include <string>

#include "schedule/request.h"
#include "server/api/fields.h"
#include "server/api/served_model.h"

namespace rocmforge {

/// Where a request's missing values come from.
enum class ApiStyle {
  openai,  ///< temperature 1, top_p 1, no other filter
  native,  ///< llama.cpp's defaults
};

/// Reads everything that says how tokens are drawn, and where the answer ends but for the number of tokens: temperature,
/// top_p, top_k, min_p, typical_p, penalties, logit_bias, seed, stop, ignore_eos, priority.
void read_sampling(Fields& fields, const ServedModel& model, ApiStyle style, Request& request);

/// `n` and `best_of`: at most `most` answers, and best_of only where it asks for nothing more.
int read_count(Fields& fields, int most);

struct StreamOptions {
  bool stream = false;
  bool include_usage = false;
};
StreamOptions read_stream(Fields& fields);

/// Fields that clients send along and that change no answer.
void ignore_harmless(Fields& fields);

}  // namespace rocmforge
