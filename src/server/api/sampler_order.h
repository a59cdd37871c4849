#pragma once

#include "schedule/sampling_params.h"
#include "server/api/fields.h"

namespace rocmforge {

/// `samplers`, the order of llama-server's samplers: an array of names, or a string of letters. See sampler_order().
void read_sampler_order(Fields& fields, SamplingParams& params);
/// The order by names.
Json sampler_order_json(const SamplingParams& params);

}  // namespace rocmforge
