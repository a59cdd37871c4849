#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "tensor/quant/dequantize.h"

namespace rocmforge::test {

/// [tokens, n] of output `i` of a call in double, before any activation; x is [tokens, k]. The call has tokens, k, n,
/// formats and bias, and gives the rows, the bias and, if it has one, the scale of an output.
template <class Call>
std::vector<double> products_of(const Call& call, const std::vector<double>& x, std::size_t i) {
  const std::vector<std::byte> rows = call.rows(i);
  const std::vector<float> bias = call.bias_of(i);
  const std::size_t bytes = row_bytes(call.formats[i], call.k);
  double scale = 1.0;
  if constexpr (requires { call.scale_of(i); }) {
    scale = double{call.scale_of(i)};
  }
  std::vector<float> weight(static_cast<std::size_t>(call.k));
  std::vector<double> out(static_cast<std::size_t>(call.tokens * call.n[i]));
  for (std::int64_t n = 0; n < call.n[i]; ++n) {
    dequantize_row(call.formats[i], rows.data() + static_cast<std::size_t>(n) * bytes, weight.data(), call.k);
    for (std::int64_t t = 0; t < call.tokens; ++t) {
      double sum = 0.0;
      for (std::size_t j = 0; j < weight.size(); ++j) {
        sum += x[static_cast<std::size_t>(t * call.k) + j] * double{weight[j]};
      }
      out[static_cast<std::size_t>(t * call.n[i] + n)] =
          scale * sum + (call.bias ? double{bias[static_cast<std::size_t>(n)]} : 0.0);
    }
  }
  return out;
}

}  // namespace rocmforge::test
