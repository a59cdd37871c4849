#pragma once

#include <cstdint>

#include "kernels/attention/portable/attention_args.h"

namespace rocmforge::check_kernels {

/// Attention of some rows by plain kernels (attention.hip), one after another:
///   check_scores   scores[row, head, key]: the dot product, scaled, capped and masked; -infinity where the row sees no key
///   check_softmax  the row's scores become weights
///   check_values   the output
struct AttentionCheckArgs {
  gpu::AttentionArgs call;
  gpu::CodedPages pages;            ///< read in place of call.kv where its data is not null
  const std::int32_t* visible_end;  ///< [tokens], null: rows see up to themselves
  double* scores;                   ///< [num_rows, q_heads, max_kv_len]
  std::int32_t first_row;           ///< of the call's tokens
  std::int32_t num_rows;
  std::int32_t max_kv_len;
  std::int32_t is_latent;  ///< V is the first value_dim elements of K
  DType kv_dtype;
  std::int32_t out_dim;  ///< elements of a head of the output
  double scale;
  double soft_cap;  ///< 0 for none
};

}  // namespace rocmforge::check_kernels
