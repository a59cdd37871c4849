#include "models/config/mtp_config.h"

#include <fmt/format.h>

#include <charconv>
#include <cstdint>
#include <string_view>
#include <system_error>

namespace rocmforge {

void separate_mtp_blocks(ModelConfig& config, MetadataReader& metadata) {
  constexpr std::string_view key = "nextn_predict_layers";
  const std::int32_t count = metadata.number(key, 0.0) == 0.0 ? 0 : metadata.count(key);
  if (count >= config.layers) {
    throw metadata.error(key, fmt::format("is {} of {} blocks", count, config.layers));
  }
  config.layers -= count;
  config.mtp_blocks = count;
}

bool is_of_mtp(std::string_view tensor, const ModelConfig& config) {
  constexpr std::string_view prefix = "blk.";
  if (!tensor.starts_with(prefix)) {
    return false;
  }
  std::int32_t block = -1;
  const char* const end = tensor.data() + tensor.size();
  const auto [rest, problem] = std::from_chars(tensor.data() + prefix.size(), end, block);
  return problem == std::errc() && rest != end && *rest == '.' && block >= config.layers &&
         block < config.layers + config.mtp_blocks;
}

}  // namespace rocmforge
