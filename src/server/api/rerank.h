#pragma once

#include <memory>

#include "server/api/generation.h"

namespace rocmforge {

/// POST /v1/rerank: how well each of several documents answers a query, best first. In the forms of Jina, Cohere, vLLM and
/// llama-server (`documents`), or in that of text-embeddings-inference (`texts`). The model is asked by its own template
/// (Vocabulary::rerank_template), and a document's score is the probability of "yes" beside "no" as the next token. Throws
/// ApiError, 501 where the model has no such template.
void serve_rerank(const std::shared_ptr<HttpExchange>& exchange, const Backend& backend);

}  // namespace rocmforge
