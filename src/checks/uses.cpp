#include <algorithm>
#include <set>
#include <utility>

#include "checks/cases.h"
#include "checks/model_shapes.h"
#include "models/plan/attention_pair.h"

namespace rocmforge {
namespace {

using Uses = std::vector<KernelRegistry::AnyUse>;

/// Collects the kernels that a device would use.
class UseList {
 public:
  UseList(const KernelRegistry& registry, const DeviceInfo& device) : registry_(registry), device_(device) {}

  /// Nothing where no kernel supports `spec`: a model with it would be refused.
  template <class Op>
  void add(const typename Op::Spec& spec) {
    const Candidates<Op> found = registry_.candidates<Op>(spec, device_);
    if (!found.able.empty()) {
      uses_.emplace_back(KernelUse<Op>{spec, found.able.front()});
    }
  }
  /// Both phases, and the append to their pages.
  void add_attention(const Attention::Spec& spec) {
    Attention::Spec decode = spec;
    decode.most_rows = 1;
    try {
      const AttentionPair pair = choose_attention(registry_, spec, device_, {});
      uses_.emplace_back(KernelUse<Attention>{decode, pair.decode.kernel, pair.layout});
      uses_.emplace_back(KernelUse<Attention>{spec, pair.prefill.kernel, pair.layout});
      add_append(spec, pair.layout);
    } catch (const Error&) {
      // No pair of kernels: the same.
    }
  }
  [[nodiscard]] Uses take() { return std::move(uses_); }

 private:
  void add_append(const Attention::Spec& spec, const KvLayout& layout) {
    if (layout.is_latent()) {
      add_latent(spec, layout);
      return;
    }
    // The number of heads changes how often the kernel does the same.
    if (!appended_.emplace(layout.head_dim, name(layout.dtype)).second) {
      return;
    }
    for (const bool norm : {false, true}) {
      add<RopeAppend>({.kind = norm ? RopeKind::half : RopeKind::adjacent,
                       .q_heads = spec.q_heads,
                       .head_dim = spec.head_dim,
                       .n_rot = spec.head_dim,
                       .head_norm = norm,
                       .layout = layout});
    }
  }
  void add_latent(const Attention::Spec& spec, const KvLayout& layout) {
    add<LatentAppend>({.kind = RopeKind::adjacent,
                       .q_heads = spec.q_heads,
                       .q_dim = 256,
                       .n_rot = layout.head_dim - layout.value_dim,
                       .layout = layout});
    add<LatentExpand>({.plain_dim = 192,
                       .value_dim = 256,
                       .key_weight = DType::q8_0,
                       .value_weight = DType::q8_0,
                       .out = layout.dtype == DType::bf16 ? DType::bf16 : DType::f16,
                       .layout = layout});
  }

  const KernelRegistry& registry_;
  const DeviceInfo& device_;
  Uses uses_;
  std::set<std::pair<std::int32_t, std::string>> appended_;
};

void add_small_operations(UseList& list) {
  list.add<EmbeddingRows>({DType::q4_k, 32000, 4096});
  list.add<EmbeddingRows>({DType::f16, 32000, 2048});
  for (const std::int64_t dim : {std::int64_t{896}, std::int64_t{4096}}) {
    list.add<RmsNorm>({dim, 1e-5f});
    list.add<LayerNorm>({dim, 1e-5f, true});
  }
  list.add<GatedActivation>({Activation::silu, 14336, true});
  list.add<GatedActivation>({Activation::gelu_tanh, 15360, true});
  list.add<GatedActivation>({Activation::relu_squared, 5120, false});
  list.add<GatedActivation>({Activation::gelu, 3072, false});
  list.add<GatedActivation>({Activation::gelu_quick, 5120, false});
  list.add<ResidualAdd>({});
  list.add<GatherRows>({4096});
  list.add<OverwriteRows>({4096});
  for (const auto inputs : {MixStreams::Inputs::streams, MixStreams::Inputs::and_row, MixStreams::Inputs::matched}) {
    list.add<MixStreams>({2048, inputs});  // Gemma 3n
  }
  list.add<CutRows>({16384, 1.6448536f});  // likewise
  list.add<SampleTokens>({32000});
  list.add<SampleTokens>({151936});
}

void add_recurrent(UseList& list) {
  list.add<CausalConv>({.channels = 2048, .taps = 3, .gates = true});  // LFM2
  list.add<CausalConv>({.channels = 8192, .taps = 4, .silu = true});   // Qwen3-Next
  list.add<GatedDeltaNet>({.key_heads = 16, .value_heads = 32, .key_dim = 128, .value_dim = 128});
  // Kimi Linear
  list.add<GatedDeltaNet>({.key_heads = 32, .value_heads = 32, .key_dim = 128, .value_dim = 128, .decays_of_keys = true});
  list.add<GatedDeltaNet>({.key_heads = 32,
                           .value_heads = 32,
                           .key_dim = 128,
                           .value_dim = 128,
                           .decays_of_keys = true,
                           .decay_floor = -5.0f});                                   // Ling 3
  list.add<SsmScan>({.heads = 64, .head_dim = 64, .state_size = 128, .groups = 8});  // Nemotron-H
  list.add<SelectiveScan>({.channels = 8192, .state_size = 16});                     // Jamba
  list.add<OutputGate>({.heads = 32, .dim = 128, .gate = OutputGate::Gate::silu, .norm = true});
}

void add_experts(UseList& list) {
  const RouteRows::Spec router = routers_of_models().front().spec;
  list.add<RouteTokens>(router.route);
  list.add<RouteTokens>(router_of_deepseek_v3().route);
  list.add<RouteRows>(router);
}

}  // namespace

std::vector<KernelRegistry::AnyUse> uses_of_models(const KernelRegistry& registry, const DeviceInfo& device) {
  UseList list(registry, device);
  for (const ModelAttention& layer : attention_of_models()) {
    list.add_attention(layer.spec);
  }
  Attention::Spec other_pages = attention_of_models()[2].spec;
  KvTypes rotated(DType::q5_1, DType::q4_0);
  rotated.k_rotated = true;
  rotated.v_rotated = true;
  for (const KvTypes& dtype : {KvTypes(DType::bf16), KvTypes(DType::q8_0), KvTypes(DType::iq4_nl), rotated}) {
    other_pages.kv_dtype = dtype;
    list.add_attention(other_pages);
  }
  for (const DType format : computing_types()) {
    list.add<Matmul>({format, 4096, 4096});
    list.add<ExpertMatmul>({format, 8, 768, 2048, 4, false});
    list.add<HeadMatmul>({format, 16, 512, 256, 64});
  }
  for (const WeightShape& shape : weights_of_models()) {
    list.add<Matmul>({DType::q4_k, shape.n, shape.k});
  }
  add_small_operations(list);
  add_recurrent(list);
  add_experts(list);
  list.add<CopyHeads>({256, 192});
  return list.take();
}

}  // namespace rocmforge
