#pragma once

#include "tensor/quant/iq1_m.h"
#include "tensor/quant/iq1_s.h"
#include "tensor/quant/iq2_s.h"
#include "tensor/quant/iq2_xs.h"
#include "tensor/quant/iq2_xxs.h"
#include "tensor/quant/iq3_s.h"
#include "tensor/quant/iq3_xxs.h"
#include "tensor/quant/iq4_nl.h"
#include "tensor/quant/iq4_xs.h"
#include "tensor/quant/mxfp4.h"
#include "tensor/quant/nvfp4.h"
#include "tensor/quant/plain.h"
#include "tensor/quant/q2_k.h"
#include "tensor/quant/q3_k.h"
#include "tensor/quant/q4_0.h"
#include "tensor/quant/q4_1.h"
#include "tensor/quant/q4_k.h"
#include "tensor/quant/q5_0.h"
#include "tensor/quant/q5_1.h"
#include "tensor/quant/q5_k.h"
#include "tensor/quant/q6_k.h"
#include "tensor/quant/q8_0.h"
#include "tensor/quant/tq1_0.h"
#include "tensor/quant/tq2_0.h"

namespace rocmforge {

template <class... Blocks>
struct FormatList {
  /// Calls `body(Block*)` with a null pointer of the block type of `type`. Returns false when the list lacks it.
  template <class Body>
  static constexpr bool visit(DType type, Body&& body) {
    return ((Blocks::dtype == type && (body(static_cast<Blocks*>(nullptr)), true)) || ...);
  }

  static constexpr bool contains(DType type) { return ((Blocks::dtype == type) || ...); }
};

/// Every format that computes. Dequantisation, the reference kernels and the tests use this list.
using Formats =
    FormatList<BlockF32, BlockF16, BlockBF16, BlockQ4_0, BlockQ4_1, BlockQ5_0, BlockQ5_1, BlockQ8_0, BlockQ2_K, BlockQ3_K,
               BlockQ4_K, BlockQ5_K, BlockQ6_K, BlockIQ4_NL, BlockIQ4_XS, BlockMXFP4, BlockNVFP4, BlockIQ1_S, BlockIQ1_M,
               BlockIQ2_XXS, BlockIQ2_XS, BlockIQ2_S, BlockIQ3_XXS, BlockIQ3_S, BlockTQ1_0, BlockTQ2_0>;

}  // namespace rocmforge
