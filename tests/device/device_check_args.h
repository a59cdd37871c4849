#pragma once

#include <cstdint>

namespace rocmforge::gpu {

struct ScaleArgs {
  float* data;  // [count]: becomes data * factor + 1
  std::int64_t count;
  float factor;
};

struct ReverseArgs {
  float* out;       // [count], the last of `in` first
  const float* in;  // [count]; they go through dynamic shared memory, all at once
  std::int64_t count;
};

struct WaveArgs {
  std::int32_t* out;  // [3]: the wave size it was compiled for, the lanes that voted, the launch's work-groups
};

struct FaultArgs {
  std::int32_t* address;  // is written to
};

struct RelayArgs {
  float* out;       // [count]: the reverse of `in`, each halved and plus one `rounds` times where its work-group is odd
  const float* in;  // [count]
  std::int32_t count;
  std::int32_t rounds;
};

}  // namespace rocmforge::gpu
