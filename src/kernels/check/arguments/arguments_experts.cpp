#include <cstdint>
#include <string_view>
#include <utility>

#include "kernels/check/arguments/argument_checks.h"
#include "kernels/check/arguments/arguments.h"

namespace rocmforge {

void check_arguments(const RouteTokens::Spec& spec, const RouteTokens::Args& args) {
  constexpr std::string_view operation = RouteTokens::name;
  require_pointer(args.logits, operation, "logits");
  require_pointer(args.ids, operation, "ids");
  require_pointer(args.weights, operation, "weights");
  require_least(args.tokens, 0, operation, "tokens");
  if (spec.bias) {
    require_pointer(args.bias, operation, "bias");
  }
}

void check_arguments(const RouteRows::Spec& spec, const RouteRows::Args& args, const RouteRowsKernel& kernel) {
  constexpr std::string_view operation = RouteRows::name;
  for (const auto& [pointer, what] : {std::pair{args.x, "x"}, {args.norm, "norm"}, {args.router, "router"}}) {
    require_pointer(pointer, operation, what);
    require(reinterpret_cast<std::uintptr_t>(pointer) % 16 == 0, "{}: {} is not 16-byte aligned", operation, what);
  }
  require_pointer(args.normed, operation, "normed");
  require_pointer(args.ids, operation, "ids");
  require_pointer(args.weights, operation, "weights");
  require_least(args.tokens, 0, operation, "tokens");
  require(args.tokens <= kernel.most_tokens(), "{}: {} tokens, at most {} are possible", operation, args.tokens,
          kernel.most_tokens());
  if (kernel.workspace_bytes(spec, args.tokens) > 0) {
    require_pointer(args.workspace, operation, "workspace");
  }
  if (kernel.state_bytes(spec) > 0) {
    require_pointer(args.state, operation, "state");
  }
  if (spec.route.bias) {
    require_pointer(args.bias, operation, "bias");
  }
  if (spec.route.logits() > spec.route.experts) {
    require_pointer(args.shared_gates, operation, "shared_gates");
    require(reinterpret_cast<std::uintptr_t>(args.shared_gates) % 16 == 0, "{}: shared_gates is not 16-byte aligned",
            operation);
  }
}

void check_arguments(const ExpertMatmul::Args& args, DeviceKind device) {
  constexpr std::string_view operation = ExpertMatmul::name;
  require_pointer(args.x, operation, "x");
  require_pointer(args.ids, operation, "ids");
  require_pointer(args.out, operation, "out");
  require_least(args.tokens, 0, operation, "tokens");
  require_least(args.k, 1, operation, "k");
  require_least(args.used, 1, operation, "used");
  require_least(args.experts, args.used, operation, "experts");
  require(args.shared >= 0 && args.shared <= args.used, "{}: {} shared experts of {}", operation, args.shared, args.used);
  require(args.activation != Activation::gelu, "{}: gelu is not for experts", operation);
  require(args.activation != Activation::gelu_quick, "{}: gelu_quick is not for experts", operation);
  require(args.weights.size() == 1 || args.weights.size() == 2, "{}: {} weights, neither gate and up nor down", operation,
          args.weights.size());
  for (const ExpertWeight& weight : args.weights) {
    require_pointer(weight.data, operation, "the data of a weight");
    require_least(weight.n, 1, operation, "n");
    require_least(weight.expert_bytes, 1, operation, "expert_bytes");
    require(weight.bias == nullptr || weight.bias_stride >= weight.n, "{}: bias_stride {} is less than n {}", operation,
            weight.bias_stride, weight.n);
    require(args.k % info(weight.dtype).block_elems == 0, "{}: k {} is not a multiple of the {} block", operation, args.k,
            info(weight.dtype).name);
  }
  if (args.down()) {
    require_pointer(args.shares, operation, "shares");
  } else if (args.alone) {
    require(args.weights.size() == 1, "{}: {} weights, but up stands alone", operation, args.weights.size());
    require(args.activation != Activation::clamped_swiglu, "{}: clamped_swiglu needs a gate", operation);
  } else {
    require(args.activation != Activation::relu_squared, "{}: relu_squared has no gate", operation);
    require(args.activation != Activation::none, "{}: an activation of none has no gate", operation);
    require(args.weights[0].n == args.weights[1].n, "{}: a gate of n {} for n {}", operation, args.weights[0].n,
            args.weights[1].n);
  }
  for (std::int64_t slot = 0; device == DeviceKind::cpu && slot < args.tokens * args.used; ++slot) {
    require(args.ids[slot] >= 0 && args.ids[slot] < args.experts, "{}: id {} of slot {} is not one of {} experts", operation,
            args.ids[slot], slot, args.experts);
  }
}

Support check_spec(const RouteTokens::Spec& spec) {
  if (spec.experts <= 0 || spec.used <= 0 || spec.used > spec.experts) {
    return Support::no(fmt::format("{} of {} experts are used", spec.used, spec.experts));
  }
  if (spec.groups <= 0 || spec.experts % spec.groups != 0) {
    return Support::no(fmt::format("{} experts are not {} equal groups", spec.experts, spec.groups));
  }
  const std::int32_t group = spec.experts / spec.groups;
  if (spec.groups_used <= 0 || spec.groups_used > spec.groups || spec.used > group * spec.groups_used) {
    return Support::no(
        fmt::format("{} of {} groups of {} experts can't give {}", spec.groups_used, spec.groups, group, spec.used));
  }
  if (spec.group_best != 1 && spec.group_best != 2) {
    return Support::no(fmt::format("groups by their {} best", spec.group_best));
  }
  if (spec.shared < 0) {
    return Support::no(fmt::format("{} shared experts", spec.shared));
  }
  return Support::yes();
}

Support check_spec(const RouteRows::Spec& spec) {
  if (spec.hidden <= 0) {
    return Support::no(fmt::format("rows of {}", spec.hidden));
  }
  return check_spec(spec.route);
}

Support check_spec(const ExpertMatmul::Spec& spec) {
  if (spec.experts <= 0 || spec.used <= 0 || spec.used > spec.experts) {
    return Support::no(fmt::format("{} of {} experts are used", spec.used, spec.experts));
  }
  return check_weight(spec.weight, spec.n, spec.k);
}

}  // namespace rocmforge
