#include "ops/sample.h"

namespace rocmforge {

// A row's scratch stays aligned for 64-bit words whatever the number of rows before it.
static_assert(sizeof(SampleScratch) % alignof(SampleScratch) == 0);

std::size_t sample_workspace_bytes(std::int64_t) { return sizeof(SampleScratch); }

}  // namespace rocmforge
