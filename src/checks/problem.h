#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "checks/call_arrays.h"
#include "checks/inputs.h"
#include "checks/model_shapes.h"
#include "ops/kernel_registry.h"

namespace rocmforge {

/// One call of an operation with random inputs.
template <class Op>
struct CallProblem {
  using Kernel = typename KernelInterfaceOf<Op>::type;
  using Call = std::function<void()>;

  CallArrays arrays;
  double tolerance = 0.0;  ///< of compare_outputs
  double bytes = 0.0;      ///< the least that a call reads and writes
  double flops = 0.0;      ///< of its products
  /// A call of `kernel` on the arrays of the placement, which also gets the memory that this kernel needs.
  std::function<Call(const Kernel& kernel, PlacedArrays& place)> bind;
};

/// A shape of a call, before its inputs are made.
template <class Op>
struct CallShape {
  std::string name;   ///< "17 tokens"
  double work = 0.0;  ///< of the oracle: products of two numbers
  std::function<CallProblem<Op>()> make;
  std::int64_t tokens = 0;  ///< where calls with the same number of tokens have several forms
};

/// Which shapes are wanted.
struct ShapeLimits {
  std::int64_t max_tokens = 512;       ///< of a call of products and the like
  std::int64_t max_step_tokens = 512;  ///< of a step's attention
  std::int64_t max_kv_len = 8192;
  /// Work-groups or threads that the device runs beside each other: calls of some kinds are as large as gives each several
  /// works.
  std::int32_t units = 1;
  /// The kernel has its longest calls in another use: here the longest give every unit more than one tile.
  bool is_repeated = false;
  /// The kernel runs the same code in another use, with other numbers of heads, rows or columns: a few shapes are enough.
  bool is_alike = false;
  /// Only this step, and steps with less work.
  std::optional<StepShape> step{};
};
/// The most tokens of a product with `columns` outputs: limits.max_tokens, for a repeated use no more than give every unit
/// more than one tile of 128 x 128.
std::int64_t most_product_tokens(const ShapeLimits& limits, std::int64_t columns);
/// The limits of this step.
ShapeLimits limits_of(const StepShape& step);

/// The tolerance of attention's output (type_tolerance) with inputs and pages of the types in `spec`.
double attention_tolerance(const Attention::Spec& spec, DeviceKind device);
/// That of numbers in pages, of which a few may be rounded to the next code.
double pages_tolerance(const KvTypes& types);
/// That of products with a weight of this type; `gated`: of two products that an activation joins.
double matmul_tolerance(DType weight, bool gated);

/// The binding of an operation whose kernels take a Spec and Args: make_args(kernel, place).
template <class Op, class MakeArgs>
auto bind_args(typename Op::Spec spec, MakeArgs make_args) {
  return [spec, make_args](const typename KernelInterfaceOf<Op>::type& kernel, PlacedArrays& place) {
    const typename Op::Args args = make_args(kernel, place);
    return std::function<void()>([&kernel, &place, spec, args] { kernel.run(spec, args, place.context()); });
  };
}

/// A shape for each number of tokens; make(tokens) gives the problem. `work`: of the oracle, for a token.
template <class Op, class Make>
std::vector<CallShape<Op>> shapes_by_tokens(const std::vector<std::int64_t>& counts, double work, Make make) {
  std::vector<CallShape<Op>> shapes;
  for (const std::int64_t tokens : counts) {
    shapes.push_back({tokens_text(tokens), work * static_cast<double>(tokens), [make, tokens] { return make(tokens); }});
  }
  return shapes;
}

/// The shapes of calls for a kernel's use, the smallest first. One specialisation for each row of CheckedOperations.
template <class Op>
std::vector<CallShape<Op>> shapes_of(const KernelUse<Op>& use, const ShapeLimits& limits);

template <class... Ops>
struct OperationList {
  template <class Op>
  static constexpr bool has = (std::is_same_v<Op, Ops> || ...);
};

/// The operations that are checked. A row of the table is an operation here and its shapes_of(), which gives shapes, inputs
/// and tolerance. The oracle is the operation's kernel of KernelPriority::check on the device, else the CPU's reference.
using CheckedOperations = OperationList<EmbeddingRows, RmsNorm, LayerNorm, Matmul, RopeAppend, Attention, GatedActivation,
                                        ResidualAdd, SampleTokens, RouteTokens, RouteRows, ExpertMatmul, CausalConv, SsmScan,
                                        SelectiveScan, GatedDeltaNet, OutputGate, LatentAppend, HeadMatmul, LatentExpand,
                                        CopyHeads, GatherRows, OverwriteRows, MixStreams, CutRows>;

template <>
std::vector<CallShape<EmbeddingRows>> shapes_of(const KernelUse<EmbeddingRows>& use, const ShapeLimits& limits);
template <>
std::vector<CallShape<RmsNorm>> shapes_of(const KernelUse<RmsNorm>& use, const ShapeLimits& limits);
template <>
std::vector<CallShape<LayerNorm>> shapes_of(const KernelUse<LayerNorm>& use, const ShapeLimits& limits);
template <>
std::vector<CallShape<Matmul>> shapes_of(const KernelUse<Matmul>& use, const ShapeLimits& limits);
template <>
std::vector<CallShape<RopeAppend>> shapes_of(const KernelUse<RopeAppend>& use, const ShapeLimits& limits);
template <>
std::vector<CallShape<Attention>> shapes_of(const KernelUse<Attention>& use, const ShapeLimits& limits);
template <>
std::vector<CallShape<GatedActivation>> shapes_of(const KernelUse<GatedActivation>& use, const ShapeLimits& limits);
template <>
std::vector<CallShape<ResidualAdd>> shapes_of(const KernelUse<ResidualAdd>& use, const ShapeLimits& limits);
template <>
std::vector<CallShape<SampleTokens>> shapes_of(const KernelUse<SampleTokens>& use, const ShapeLimits& limits);
template <>
std::vector<CallShape<RouteTokens>> shapes_of(const KernelUse<RouteTokens>& use, const ShapeLimits& limits);
template <>
std::vector<CallShape<RouteRows>> shapes_of(const KernelUse<RouteRows>& use, const ShapeLimits& limits);
template <>
std::vector<CallShape<ExpertMatmul>> shapes_of(const KernelUse<ExpertMatmul>& use, const ShapeLimits& limits);
template <>
std::vector<CallShape<CausalConv>> shapes_of(const KernelUse<CausalConv>& use, const ShapeLimits& limits);
template <>
std::vector<CallShape<SsmScan>> shapes_of(const KernelUse<SsmScan>& use, const ShapeLimits& limits);
template <>
std::vector<CallShape<SelectiveScan>> shapes_of(const KernelUse<SelectiveScan>& use, const ShapeLimits& limits);
template <>
std::vector<CallShape<GatedDeltaNet>> shapes_of(const KernelUse<GatedDeltaNet>& use, const ShapeLimits& limits);
template <>
std::vector<CallShape<OutputGate>> shapes_of(const KernelUse<OutputGate>& use, const ShapeLimits& limits);
template <>
std::vector<CallShape<LatentAppend>> shapes_of(const KernelUse<LatentAppend>& use, const ShapeLimits& limits);
template <>
std::vector<CallShape<HeadMatmul>> shapes_of(const KernelUse<HeadMatmul>& use, const ShapeLimits& limits);
template <>
std::vector<CallShape<LatentExpand>> shapes_of(const KernelUse<LatentExpand>& use, const ShapeLimits& limits);
template <>
std::vector<CallShape<GatherRows>> shapes_of(const KernelUse<GatherRows>& use, const ShapeLimits& limits);
template <>
std::vector<CallShape<OverwriteRows>> shapes_of(const KernelUse<OverwriteRows>& use, const ShapeLimits& limits);
template <>
std::vector<CallShape<MixStreams>> shapes_of(const KernelUse<MixStreams>& use, const ShapeLimits& limits);
template <>
std::vector<CallShape<CutRows>> shapes_of(const KernelUse<CutRows>& use, const ShapeLimits& limits);
template <>
std::vector<CallShape<CopyHeads>> shapes_of(const KernelUse<CopyHeads>& use, const ShapeLimits& limits);

}  // namespace rocmforge
