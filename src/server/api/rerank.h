#pragma once

#include <memory>

#include "server/api/generation.h"

namespace rocmforge {

/// POST /v1/rerank: how well each of several documents answers a query, best first. In the forms of Jina, Cohere, vLLM and
/// llama-server (`documents`), or in that of text-embeddings-inference (`texts`). An encoder with a classifier reads query
/// and document together, and a document's score is the sigmoid of its value, or with `raw_scores` the value. Another model
/// is asked by its own template (Vocabulary::rerank_template), and the score is the probability of "yes" beside "no" as the
/// next token. Throws ApiError, 501 where the model has neither.
void serve_rerank(const std::shared_ptr<HttpExchange>& exchange, const Backend& backend);

}  // namespace rocmforge
