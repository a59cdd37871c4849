#pragma once

#include "schedule/sampling_params.h"
#include "server/api/fields.h"

namespace rocmforge {

/// `samplers`, the order of llama-server's samplers: an array of names, or a string of letters. What is not named is off.
/// Penalties and DRY act on the host, before all others; named behind one of them they are refused.
void read_sampler_order(Fields& fields, SamplingParams& params);
/// The order by names.
Json sampler_order_json(const SamplingParams& params);

}  // namespace rocmforge
