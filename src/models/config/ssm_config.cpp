#include "models/config/ssm_config.h"

#include <fmt/format.h>

#include <string_view>

namespace rocmforge {
namespace {

/// The bounds keep a damaged file from causing allocations of gigabytes.
std::int32_t count_up_to(MetadataReader& metadata, std::string_view key, std::int32_t least, std::int32_t most) {
  const std::int32_t value = metadata.count(key);
  if (value < least || value > most) {
    throw metadata.error(key, fmt::format("is {}, it must be in [{}, {}]", value, least, most));
  }
  return value;
}

}  // namespace

SsmConfig read_ssm(MetadataReader& metadata) {
  SsmConfig ssm;
  ssm.taps = count_up_to(metadata, "ssm.conv_kernel", 2, 1024);
  ssm.state_size = count_up_to(metadata, "ssm.state_size", 1, 65536);
  const std::int32_t inner = count_up_to(metadata, "ssm.inner_size", 1, 1 << 24);
  ssm.heads = metadata.count("ssm.time_step_rank");
  if (inner % ssm.heads != 0) {
    throw metadata.error("ssm.time_step_rank",
                         fmt::format("is {}, which does not divide ssm.inner_size {}", ssm.heads, inner));
  }
  ssm.head_dim = inner / ssm.heads;
  ssm.groups = metadata.count("ssm.group_count");
  if (ssm.heads % ssm.groups != 0) {
    throw metadata.error("ssm.group_count", fmt::format("is {}, which does not divide the {} heads", ssm.groups, ssm.heads));
  }
  return ssm;
}

MambaConfig read_mamba(MetadataReader& metadata) {
  return {.channels = count_up_to(metadata, "ssm.inner_size", 1, 1 << 24),
          .state_size = count_up_to(metadata, "ssm.state_size", 1, 65536),
          .time_rank = count_up_to(metadata, "ssm.time_step_rank", 1, 65536),
          .taps = count_up_to(metadata, "ssm.conv_kernel", 2, 1024)};
}

DeltaNetConfig read_kimi_delta(MetadataReader& metadata, std::int32_t heads) {
  const std::int32_t head_dim = count_up_to(metadata, "kda.head_dim", 1, 65536);
  return {.key_heads = heads,
          .value_heads = heads,
          .key_dim = head_dim,
          .value_dim = head_dim,
          .taps = count_up_to(metadata, "ssm.conv_kernel", 2, 1024)};
}

}  // namespace rocmforge
