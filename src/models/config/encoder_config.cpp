#include "models/config/encoder_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <string>
#include <string_view>

namespace rocmforge {
namespace {

/// Rows of a tensor, 0 if the file has none.
std::int32_t rows_of(const GgufFile& file, std::string_view name) {
  const GgufTensor* tensor = file.find_tensor(name);
  if (tensor == nullptr) {
    return 0;
  }
  const std::int64_t elems = tensor->tensor.shape.elems(), columns = std::max<std::int64_t>(tensor->tensor.shape.cols(), 1);
  return static_cast<std::int32_t>(std::min<std::int64_t>(elems / columns, std::numeric_limits<std::int32_t>::max()));
}

void read_head(EncoderConfig& encoder, MetadataReader& metadata) {
  const GgufFile& file = metadata.file();
  metadata.contains("classifier.output_labels");
  const std::int32_t labels = rows_of(file, "cls.output.weight");
  encoder.labels = labels > 0 ? labels : rows_of(file, "cls.weight");
  if (encoder.labels == 0) {
    throw metadata.error("pooling_type", "is 4 (rank), but the file has no tensor 'cls.weight' or 'cls.output.weight'");
  }
  encoder.gelu_head = file.find_tensor("cls.norm.weight") != nullptr;
  for (const char* needed : {"cls.weight", "cls.output.weight"}) {
    if (encoder.gelu_head && file.find_tensor(needed) == nullptr) {
      throw Error(fmt::format("{}: has tensor 'cls.norm.weight' but no '{}'", file.path().string(), needed));
    }
  }
  const std::string pooling = metadata.string("classifier.pooling_type", "cls");
  if (pooling != "cls") {
    throw metadata.error("classifier.pooling_type", fmt::format("is '{}', only 'cls' is supported", pooling));
  }
}

void refuse_other_mixers(const ModelConfig& config, MetadataReader& metadata) {
  for (const LayerConfig& layer : config.blocks) {
    if (layer.mixer != MixerKind::attention || layer.attention.latent.rank > 0 || !layer.has_mixer()) {
      throw metadata.error("attention.causal", "is false, which is supported for layers of plain attention alone");
    }
  }
}

}  // namespace

void read_encoder(ModelConfig& config, MetadataReader& metadata) {
  EncoderConfig& encoder = config.encoder;
  const bool causal = metadata.flag("attention.causal", !encoder.is_encoder);
  if (causal && encoder.is_encoder) {
    throw metadata.error("attention.causal", "is true, but models of this architecture see the whole text");
  }
  encoder.is_encoder = !causal;
  if (!encoder.is_encoder) {
    return;
  }
  refuse_other_mixers(config, metadata);
  for (LayerConfig& layer : config.blocks) {
    std::int32_t& window = layer.attention.window;
    window = window > 0 ? window / 2 + 1 : 0;
  }
  const GgufFile& file = metadata.file();
  encoder.token_types = rows_of(file, "token_types.weight");
  if (config.pooling == PoolingType::rank) {
    read_head(encoder, metadata);
  } else {
    encoder.dense_width = rows_of(file, "dense_2.weight");
    encoder.dense_out = rows_of(file, "dense_3.weight");
    for (const char* key : {"dense_2_feat_in", "dense_2_feat_out", "dense_3_feat_in", "dense_3_feat_out"}) {
      metadata.contains(key);
    }
    if ((encoder.dense_width > 0) != (encoder.dense_out > 0)) {
      throw Error(
          fmt::format("{}: has only one of the tensors 'dense_2.weight' and 'dense_3.weight'", file.path().string()));
    }
  }
}

}  // namespace rocmforge
