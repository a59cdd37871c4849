#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "models/config/layer_config.h"
#include "weights/gguf_file.h"

namespace rocmforge {

/// How the hidden states of a text become one vector, in the numbers of a file's `pooling_type`. rank: they become a score.
enum class PoolingType { none, mean, cls, last, rank };

/// What an encoder has: a model that sees a whole text in both directions, and gives hidden states in place of logits.
struct EncoderConfig {
  bool is_encoder = false;
  std::int32_t token_types = 0;  ///< rows of tensor token_types, of which row 0 is added to each token; 0: none
  std::int32_t labels = 0;       ///< values of the classifier's head (tensors cls, cls.output); 0: none is used
  bool gelu_head = false;        ///< between the two: GELU and tensor cls.norm in place of tanh
  std::int32_t dense_width = 0;  ///< between tensors dense_2 and dense_3, which map hidden states; 0: there are none
  std::int32_t dense_out = 0;    ///< of dense_3
  bool one_plane = false;        ///< all layers store K and V in one place, since only the layer that did reads them
};

/// The numbers of a transformer, read from a file's metadata: defaults first, then the file's values, then
/// checked.
struct ModelConfig {
  std::string architecture;  ///< general.architecture
  std::string name;          ///< general.name, "" when absent
  std::int32_t layers = 0;
  std::int32_t hidden = 0;
  std::int32_t vocab = 0;
  std::int32_t context_length = 0;  ///< the model was trained for this many positions
  NormKind norm_kind = NormKind::rms;
  bool norm_needs_bias = false;             ///< of a LayerNorm; one in the file is always used
  float norm_eps = 1e-5f;                   ///< of every norm
  std::string output_norm = "output_norm";  ///< its tensor, without ".weight"; "" for none
  std::string embedding_norm;               ///< of the first layer's input: its tensor; "" for none
  bool plain_embedding_norm = false;        ///< the same without weights
  float embedding_scale = 1.0f;             ///< multiplies the rows of the embedding
  std::int32_t position_axes = 1;           ///< the most positions that a token may have: RaggedBatch::position_axes
  /// So many first layers get rows of images added to their outputs, which lie behind the rows of the embedding:
  /// BatchPlan::given.
  std::int32_t deepstack_layers = 0;
  /// Beyond it the model computes something else, which is not supported; 0: no limit.
  std::int32_t most_positions = 0;
  bool learned_positions = false;        ///< a row of tensor position_embd is added for each position
  std::int32_t per_layer_width = 0;      ///< elements of each layer in an embedding of its own: PerLayerEmbedding; 0: none
  std::int32_t residual_streams = 1;     ///< of a token: BlockStreams; these models have per-layer embeddings
  float logit_scale = 1.0f;              ///< multiplies the logits
  float logit_soft_cap = 0.0f;           ///< after logit_scale, logits become c * tanh(logit / c); 0 for none
  std::optional<PoolingType> pooling{};  ///< empty: the file does not say
  EncoderConfig encoder{};
  std::int32_t mtp_blocks = 0;      ///< blocks of multi-token prediction at the end of the file: MtpBlock
  bool mtp_supported = true;        ///< false: their graph is another one
  std::vector<LayerConfig> blocks;  ///< [layers + mtp_blocks]

  [[nodiscard]] const LayerConfig& layer(int index) const { return blocks[static_cast<std::size_t>(index)]; }
  /// Values of a row of BatchPlan::given.
  [[nodiscard]] std::int64_t given_width() const { return std::int64_t{hidden} * (1 + deepstack_layers); }
  /// Elements of a token's row in Buffers::streams.
  [[nodiscard]] std::int64_t stream_elements() const {
    return residual_streams > 1 ? std::int64_t{residual_streams} * hidden : 0;
  }
  /// Values of a row of Model::hidden().
  [[nodiscard]] std::int32_t state_width() const {
    return encoder.labels > 0 ? encoder.labels : encoder.dense_out > 0 ? encoder.dense_out : hidden;
  }

  /// `context` is the most positions that a sequence will have, 0 for context_length: some models use another rotation in
  /// long contexts. Throws Error naming the key for a missing or impossible value, or the architecture with the list of
  /// those supported.
  static ModelConfig from_gguf(const GgufFile& file, std::int32_t context = 0);
};

/// Architectures that can be loaded, for messages and `--help`.
std::vector<std::string> supported_architectures();

}  // namespace rocmforge
