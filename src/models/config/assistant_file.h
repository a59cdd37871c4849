#pragma once

#include <cstdint>

#include "models/config/model_config.h"
#include "weights/gguf_file.h"

namespace rocmforge {

/// Whether the file is an assistant of a Gemma 4 model, by `general.architecture`.
bool is_assistant_file(const GgufFile& file);

/// An assistant of a Gemma 4 model, as llama.cpp's convert_hf_to_gguf.py writes it: a small model that predicts the token
/// after the next, and has queries alone. Its layers read the keys and values of the model's last layer of their kind, with
/// a window or without (AssistantBlocks).
struct AssistantFile {
  /// `model` is the file of that model, and `of_model` its configuration; `context` the most positions of a sequence. Throws
  /// Error naming the file and the key or tensor that is missing, impossible, or not of this model.
  AssistantFile(GgufFile opened, const GgufFile& model, const ModelConfig& of_model, std::int32_t context);
  AssistantFile(const AssistantFile&) = delete;
  AssistantFile& operator=(const AssistantFile&) = delete;

  GgufFile file;
  /// AttentionConfig::keys_of is a layer of the model. A query stands behind the last key, so that a window has one key
  /// less than in the model.
  ModelConfig config;
  std::int32_t model_hidden = 0;  ///< the model's width

 private:
  /// Layer `index` reads what the model's last layer of its kind has.
  void find_keys(int index, const ModelConfig& of_model);
};

}  // namespace rocmforge
