#pragma once

#include <algorithm>
#include <cstddef>
#include <iterator>

#include "kernels/matmul/portable/matmul_args.h"

namespace rocmforge {

/// The kernels of `dtype` among `formats`, or `coded`, which serves all of gpu::CodedFormats; null where there are none.
template <class Format, std::size_t count>
const Format* find_format(const Format (&formats)[count], const Format& coded, DType dtype) {
  if (gpu::CodedFormats::contains(dtype)) {
    return &coded;
  }
  const auto* found = std::ranges::find(formats, dtype, &Format::dtype);
  return found == std::end(formats) ? nullptr : found;
}

}  // namespace rocmforge
