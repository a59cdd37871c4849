#pragma once

#include <cstdint>
#include <vector>

#include "models/config/model_config.h"
#include "weights/gguf_file.h"

namespace rocmforge {

/// Whether the file is an EAGLE3 draft, by `general.architecture`.
bool is_eagle_file(const GgufFile& file);

/// An EAGLE3 draft (Li, Wei, Zhang and Zhang 2025), as llama.cpp's convert_hf_to_gguf.py writes it: one block that predicts
/// the token after the next from the inputs of some layers of the model it was trained for (EagleBlock).
struct EagleFile {
  /// `model` is the file of that model, and `of_model` its configuration; `context` the most positions of a sequence. Throws
  /// Error naming the file and the key or tensor that is missing, impossible, or not of this model.
  EagleFile(GgufFile opened, const GgufFile& model, const ModelConfig& of_model, std::int32_t context);
  EagleFile(const EagleFile&) = delete;
  EagleFile& operator=(const EagleFile&) = delete;

  GgufFile file;
  ModelConfig config;             ///< of the draft: one layer, and the vocabulary of its head
  std::int32_t model_hidden = 0;  ///< the model's width
  std::int32_t model_vocab = 0;
  std::vector<std::int32_t>
      target_layers;                  ///< of the model, ascending from 1 to the number of layers: their inputs are read
  bool norm_before_residual = false;  ///< the residual stream starts from the normalised state
  bool norm_before_fc = false;        ///< the joined inputs are normalised before they are projected
  bool own_embedding = false;         ///< else the model's is read
  std::vector<std::int32_t> tokens;   ///< [vocabulary] the model's token of each of the draft's; empty: the same

 private:
  void read_target(const ModelConfig& of_model);
  void read_block(std::int32_t context);
  void read_vocabulary(const GgufFile& model);
};

}  // namespace rocmforge
