#pragma once

#include <cstdint>
#include <string>

#include "ops/registry.h"

namespace rocmforge {

/// The residual streams of each token become sums of each other (AltUp, Baykal et al. 2023):
///   x[b] = sum over the inputs a of M[b, a] in[a],  M = base + coefs tanh(logits)
/// where M is another one for each token if it has logits.
struct MixStreams {
  static constexpr std::string_view name = "mix_streams";
  static constexpr std::int32_t streams = 4;  ///< of a token
  static constexpr std::int32_t most_inputs = streams + 1;
  static constexpr double least_square = 1e-5;

  enum class Inputs : std::int32_t {
    streams,  ///< the streams
    and_row,  ///< the streams, and behind them a row
    /// A row, and the streams behind the first with its magnitude: those times
    /// sqrt(mean(row^2) / max(mean(stream^2), least_square)). The first stream is not read.
    matched,
  };

  struct Spec {
    std::int64_t dim = 0;
    Inputs inputs = Inputs::streams;

    [[nodiscard]] bool has_row() const { return inputs != Inputs::streams; }
    /// Columns of M.
    [[nodiscard]] std::int32_t columns() const { return inputs == Inputs::and_row ? streams + 1 : streams; }
  };

  struct Args {
    float* x = nullptr;             ///< [tokens, streams, dim], in and out
    const float* row = nullptr;     ///< [tokens, dim]
    const float* logits = nullptr;  ///< [tokens, streams]; null: M is base
    const float* base = nullptr;    ///< [streams, columns]
    const float* coefs = nullptr;   ///< [streams, columns, streams]; not read without logits
    std::int64_t tokens = 0;
    float* first = nullptr;          ///< [tokens, dim]: the new x[0] times `factors`; may be `row`
    const float* factors = nullptr;  ///< [dim], null: 1
  };
};

std::string to_string(const MixStreams::Spec& spec);

}  // namespace rocmforge
