#pragma once

#include <memory>

#include "server/api/generation.h"

namespace rocmforge {

/// POST /v1/audio/transcriptions: a form with a recording, of which the model is asked for a transcript.
void serve_transcription(const std::shared_ptr<HttpExchange>& exchange, const Backend& backend);

}  // namespace rocmforge
