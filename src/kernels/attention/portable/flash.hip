#include "kernels/attention/portable/flash.h"

namespace rocmforge::gpu {

#if ROCMFORGE_DEVICE_AMD
#define ROCMFORGE_FLASH(head_dim, name, type)                                            \
  constexpr int waves_##head_dim##_##name = FlashResources<type, head_dim>::simd_waves;  \
  extern "C" __global__ void __launch_bounds__(4 * wave_size, waves_##head_dim##_##name) \
      flash_##head_dim##_##name(AttentionArgs args) {                                    \
    flash_attention<type, head_dim>(args);                                               \
  }
#else
#define ROCMFORGE_FLASH(head_dim, name, type)                                                                 \
  extern "C" __global__ void __launch_bounds__(4 * wave_size) flash_##head_dim##_##name(AttentionArgs args) { \
    flash_attention<type, head_dim>(args);                                                                    \
  }
#endif
#define ROCMFORGE_FLASH_TYPES(head_dim) \
  ROCMFORGE_FLASH(head_dim, f16, half)  \
  ROCMFORGE_FLASH(head_dim, bf16, bfloat16)

ROCMFORGE_FLASH_TYPES(64)
ROCMFORGE_FLASH_TYPES(80)
ROCMFORGE_FLASH_TYPES(96)
ROCMFORGE_FLASH_TYPES(128)
ROCMFORGE_FLASH_TYPES(192)
ROCMFORGE_FLASH_TYPES(256)

}  // namespace rocmforge::gpu
