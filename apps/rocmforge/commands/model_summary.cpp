#include "commands/model_summary.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <span>

#include "models/config/model_config.h"

namespace rocmforge::app {

std::uint64_t parameter_count(const GgufFile& file) {
  std::uint64_t count = 0;
  for (const GgufTensor& tensor : file.tensors()) {
    count += static_cast<std::uint64_t>(tensor.tensor.shape.elems());
  }
  return count;
}

std::vector<std::pair<std::string, double>> format_shares(const GgufFile& file) {
  std::map<std::string, double> bytes;
  double total = 0.0;
  for (const GgufTensor& tensor : file.tensors()) {
    const auto size = static_cast<double>(tensor.tensor.bytes());
    bytes[std::string(name(tensor.tensor.dtype))] += size;
    total += size;
  }
  std::vector<std::pair<std::string, double>> shares(bytes.begin(), bytes.end());
  std::stable_sort(shares.begin(), shares.end(), [](const auto& a, const auto& b) { return a.second > b.second; });
  for (auto& share : shares) {
    share.second /= total;
  }
  return shares;
}

std::string format_mix(const GgufFile& file) {
  std::string text;
  for (const auto& [format, share] : format_shares(file)) {
    text += fmt::format("{}{} {:.{}f} %", text.empty() ? "" : ", ", format, 100.0 * share, share < 0.01 ? 1 : 0);
  }
  return text;
}

std::string main_format(const GgufFile& file) {
  const auto shares = format_shares(file);
  return shares.empty() ? "" : shares.front().first;
}

std::uint64_t kv_bytes_per_token(const GgufFile& file, const KvTypes& kv_dtype) {
  const ModelConfig config = ModelConfig::from_gguf(file);
  std::uint64_t bytes = 0;
  for (const LayerConfig& layer : std::span(config.blocks).first(static_cast<std::size_t>(config.layers))) {
    const bool is_latent = layer.attention.latent.rank > 0;
    bytes += layer.attends() ? kv_row_bytes(kv_dtype, layer.attention.kv_dim(), is_latent) : 0;
  }
  return bytes;
}

}  // namespace rocmforge::app
