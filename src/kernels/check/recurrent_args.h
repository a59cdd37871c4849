#pragma once

#include <cstddef>
#include <cstdint>

#include "ops/causal_conv.h"
#include "ops/delta_net.h"
#include "ops/selective_scan.h"
#include "ops/ssm_scan.h"

namespace rocmforge::check_kernels {

/// The sequences of a step and where their states lie.
struct RecurrentSteps {
  std::byte* states;        ///< slot 0; slots are slot_stride bytes apart
  const StateSlots* slots;  ///< [sequences]
  const std::int32_t* query_offsets;
  std::int64_t slot_stride;
  std::int64_t sequences;
};

struct DeltaNetCheckArgs {
  RecurrentSteps steps;
  const float* qkv;
  const float* beta;
  const float* alpha;
  const float* rate;
  const float* step_bias;
  float* out;
  std::int64_t qkv_stride;
  std::int64_t gate_stride;
  std::int64_t out_stride;
  GatedDeltaNet::Spec spec;
  float norm_eps;
};

struct SsmScanCheckArgs {
  RecurrentSteps steps;
  const float* x;
  const float* z;
  const float* dt;
  const float* a;
  const float* d;
  const float* dt_bias;
  float* out;
  std::int64_t stride;
  SsmScan::Spec spec;
};

struct SelectiveScanCheckArgs {
  RecurrentSteps steps;
  const float* x;
  const float* z;
  const float* dt;
  const float* b;
  const float* c;
  const float* a;
  const float* d;
  float* out;
  std::int64_t stride;
  std::int64_t bc_stride;
  SelectiveScan::Spec spec;
};

struct CausalConvCheckArgs {
  RecurrentSteps steps;
  const float* x;
  const float* weight;
  const float* bias;  ///< or null
  float* out;
  std::int64_t x_stride;
  CausalConv::Spec spec;
};

}  // namespace rocmforge::check_kernels
