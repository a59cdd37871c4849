#include "ops/sample.h"

namespace rocmforge {

std::size_t sample_workspace_bytes(std::int64_t) { return sizeof(SampleScratch); }

}  // namespace rocmforge
