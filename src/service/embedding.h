#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "schedule/request.h"
#include "service/encoding.h"
#include "service/model.h"

namespace rocmforge {

/// The pooling that a request names, else the model's. Throws ServiceError (invalid, field "pooling") for a reranker, and
/// for a model that gives no embeddings by itself if none is named.
Pooling choose_pooling(const ServedModel& model, std::optional<Pooling> named = {});

/// The ids themselves; of an empty text one token that begins or ends a text.
Ids embedded_ids(Ids ids, const ServedModel& model);

/// A request for the embedding of a text: StepOutput::embedding of the last output.
Request embedding_request(Ids ids, Pooling pooling);

/// The first `size` values, scaled to length 1; zeros stay zeros.
std::vector<float> normalised(std::vector<float> values, std::size_t size);

}  // namespace rocmforge
