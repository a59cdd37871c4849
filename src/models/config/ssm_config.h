#pragma once

#include "models/config/layer_config.h"
#include "models/config/metadata_reader.h"

namespace rocmforge {

/// Reads the keys of a Mamba-2 mixer, `ssm.inner_size` and related ones. Throws Error naming the key for inconsistent
/// numbers.
SsmConfig read_ssm(MetadataReader& metadata);
/// The same of a Mamba mixer. Its norms are the architecture's.
MambaConfig read_mamba(MetadataReader& metadata);
/// The same of a KimiDeltaMixer with so many heads.
DeltaNetConfig read_kimi_delta(MetadataReader& metadata, std::int32_t heads);

}  // namespace rocmforge
