#pragma once

#include <memory>

#include "server/api/generation.h"

namespace rocmforge {

/// POST /tokenize. llama-server's form has `content` and answers {"tokens"}; vLLM's has `prompt` or `messages` and answers
/// {"count", "max_model_len", "tokens", "token_strs"}. Throws ApiError.
void serve_tokenize(const std::shared_ptr<HttpExchange>& exchange, const Backend& backend);

/// POST /detokenize: the text as `content` (llama-server) and as `prompt` (vLLM), whose requests are the same.
void serve_detokenize(const std::shared_ptr<HttpExchange>& exchange, const Backend& backend);

/// GET /tokenizer_info, as vLLM answers it: the content of transformers' tokenizer_config.json.
void serve_tokenizer_info(const std::shared_ptr<HttpExchange>& exchange, const Backend& backend);

}  // namespace rocmforge
