#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "ops/kv_layout.h"
#include "weights/gguf_file.h"

namespace rocmforge::app {

/// Elements of all tensors.
std::uint64_t parameter_count(const GgufFile& file);

/// Each tensor format with its share of the bytes, the largest first: {"Q8_0", 0.98}.
std::vector<std::pair<std::string, double>> format_shares(const GgufFile& file);

/// "Q8_0 98 %, F32 2 %"
std::string format_mix(const GgufFile& file);

/// The format that holds most bytes: "Q8_0".
std::string main_format(const GgufFile& file);

/// Bytes that K and V of one position take in all layers. Throws Error when the metadata does not say.
std::uint64_t kv_bytes_per_token(const GgufFile& file, const KvTypes& kv_dtype);

}  // namespace rocmforge::app
