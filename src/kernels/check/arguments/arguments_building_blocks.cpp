#include "kernels/check/arguments/argument_checks.h"
#include "kernels/check/arguments/arguments.h"

namespace rocmforge {

void check_arguments(const ResidualAdd::Spec&, const ResidualAdd::Args& args) {
  constexpr std::string_view operation = ResidualAdd::name;
  require_pointer(args.a, operation, "a");
  require_pointer(args.b, operation, "b");
  require_pointer(args.out, operation, "out");
  require_least(args.count, 0, operation, "count");
}

void check_arguments(const LayerNorm::Spec& spec, const LayerNorm::Args& args) {
  constexpr std::string_view operation = LayerNorm::name;
  require_pointer(args.x, operation, "x");
  require_pointer(args.weight, operation, "weight");
  require_pointer(args.out, operation, "out");
  if (spec.bias) {
    require_pointer(args.bias, operation, "bias");
  }
  require_least(args.rows, 0, operation, "rows");
  require(row_stride(spec, args) >= spec.groups * spec.dim, "{}: stride {} is less than {} groups of {}", operation,
          args.stride, spec.groups, spec.dim);
}

void check_arguments(const Dequantize::Spec& spec, const Dequantize::Args& args) {
  constexpr std::string_view operation = Dequantize::name;
  require_pointer(args.rows, operation, "rows");
  require_pointer(args.out, operation, "out");
  require_least(args.count, 0, operation, "count");
  const DTypeInfo& format = info(spec.dtype);
  require(args.count % format.block_elems == 0, "{}: count {} is not a multiple of the {} of a {} block", operation,
          args.count, format.block_elems, format.name);
}

void check_arguments(const DequantizeRmsNorm::Spec&, const DequantizeRmsNorm::Args& args) {
  constexpr std::string_view operation = DequantizeRmsNorm::name;
  require_pointer(args.rows, operation, "rows");
  require_pointer(args.weight, operation, "weight");
  require_pointer(args.out, operation, "out");
  require_least(args.num_rows, 0, operation, "num_rows");
}

void check_arguments(const GatherRows::Spec&, const GatherRows::Args& args, DeviceKind device) {
  constexpr std::string_view operation = GatherRows::name;
  require_pointer(args.x, operation, "x");
  require_pointer(args.ids, operation, "ids");
  require_pointer(args.out, operation, "out");
  require_least(args.count, 0, operation, "count");
  require(args.out != args.x, "{}: out is x", operation);
  if (device == DeviceKind::cpu) {
    for (std::int64_t i = 0; i < args.count; ++i) {
      require(args.ids[i] >= 0, "{}: id {} is {}", operation, i, args.ids[i]);
    }
  }
}

void check_arguments(const OverwriteRows::Spec& spec, const OverwriteRows::Args& args, DeviceKind device) {
  constexpr std::string_view operation = OverwriteRows::name;
  require_pointer(args.x, operation, "x");
  require_pointer(args.from, operation, "from");
  require_pointer(args.ids, operation, "ids");
  require_pointer(args.out, operation, "out");
  require_least(args.count, 0, operation, "count");
  require(args.x_stride >= spec.dim, "{}: x_stride {} is less than dim {}", operation, args.x_stride, spec.dim);
  require(args.out != args.x, "{}: out is x", operation);
  if (device == DeviceKind::cpu) {
    for (std::int64_t i = 0; i < args.count; ++i) {
      require(args.from[i] >= 0 && args.ids[i] >= 0, "{}: row {} is to become row {} of x", operation, args.ids[i],
              args.from[i]);
    }
  }
}

void check_arguments(const AllReduce::Spec& spec, const AllReduce::Args& args) {
  constexpr std::string_view operation = AllReduce::name;
  require_pointer(args.out, operation, "out");
  require_least(args.count, 0, operation, "count");
  for (std::int32_t rank = 0; rank < spec.ranks; ++rank) {
    const float* part = args.parts[static_cast<std::size_t>(rank)];
    require(part != nullptr, "{}: the part of rank {} is null", operation, rank);
    require(part != args.out, "{}: out is the part of rank {}", operation, rank);
  }
}

Support check_spec(const ResidualAdd::Spec&) { return Support::yes(); }

Support check_spec(const Dequantize::Spec& spec) {
  const DTypeInfo& format = info(spec.dtype);
  return check_weight(spec.dtype, 1, format.block_elems);
}

Support check_spec(const DequantizeRmsNorm::Spec& spec) { return check_weight(spec.dtype, 1, spec.dim); }

Support check_spec(const LayerNorm::Spec& spec) {
  if (spec.groups < 1) {
    return Support::no(fmt::format("groups is {}", spec.groups));
  }
  return spec.dim > 0 ? Support::yes() : Support::no(fmt::format("dim is {}", spec.dim));
}

Support check_spec(const OverwriteRows::Spec& spec) {
  return spec.dim > 0 ? Support::yes() : Support::no(fmt::format("dim is {}", spec.dim));
}

Support check_spec(const AllReduce::Spec& spec) {
  return spec.ranks >= 2 && spec.ranks <= AllReduce::most_ranks
             ? Support::yes()
             : Support::no(fmt::format("{} ranks are not 2 to {}", spec.ranks, AllReduce::most_ranks));
}

Support check_spec(const GatherRows::Spec& spec) {
  return spec.dim > 0 ? Support::yes() : Support::no(fmt::format("dim is {}", spec.dim));
}

}  // namespace rocmforge
