#pragma once

#include "ops/all_reduce.h"
#include "ops/attention.h"
#include "ops/attention_steps.h"
#include "ops/building_blocks.h"
#include "ops/causal_conv.h"
#include "ops/cut_rows.h"
#include "ops/delta_net.h"
#include "ops/elementwise.h"
#include "ops/embedding.h"
#include "ops/experts.h"
#include "ops/latent.h"
#include "ops/layer_norm.h"
#include "ops/matmul.h"
#include "ops/mix_streams.h"
#include "ops/output_gate.h"
#include "ops/overwrite_rows.h"
#include "ops/rank_exchange.h"
#include "ops/registry.h"
#include "ops/rms_norm.h"
#include "ops/rope.h"
#include "ops/sample.h"
#include "ops/selective_scan.h"
#include "ops/ssm_scan.h"

namespace rocmforge {

/// Not copyable. Constructor and destructor are in registry.cpp, so that other files need not compile those of all kernels.
class KernelRegistry final
    : public KernelRegistryOf<EmbeddingRows, RmsNorm, LayerNorm, Matmul, RopeAppend, Attention, GatedActivation,
                              SampleTokens, ResidualAdd, Scale, CausalMask, RowSoftmax, QueryKey, WeightsValue, ReplicateKv,
                              Dequantize, DequantizeRmsNorm, GatherRows, RouteTokens, RouteRows, ExpertMatmul, CausalConv,
                              SsmScan, SelectiveScan, GatedDeltaNet, OutputGate, LatentAppend, HeadMatmul, LatentExpand,
                              CopyHeads, OverwriteRows, AllReduce, RankExchange, MixStreams, CutRows> {
 public:
  KernelRegistry();
  ~KernelRegistry();
  KernelRegistry(const KernelRegistry&) = delete;
  KernelRegistry& operator=(const KernelRegistry&) = delete;
};

}  // namespace rocmforge
