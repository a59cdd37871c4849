#include <cmath>
#include <limits>

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

void check_arguments(const MixStreams::Spec& spec, const MixStreams::Args& args) {
  constexpr std::string_view operation = MixStreams::name;
  require_pointer(args.x, operation, "x");
  if (spec.has_row()) {
    require_pointer(args.row, operation, "row");
  }
  require_pointer(args.base, operation, "base");
  if (args.logits != nullptr) {
    require_pointer(args.coefs, operation, "coefs");
  }
  require_pointer(args.first, operation, "first");
  require_least(args.tokens, 0, operation, "tokens");
  require(args.first != args.x, "{}: first is x", operation);
}

void check_arguments(const CutRows::Spec& spec, const CutRows::Args& args) {
  constexpr std::string_view operation = CutRows::name;
  require_pointer(args.x, operation, "x");
  require_least(args.rows, 0, operation, "rows");
  require(args.stride >= spec.width, "{}: stride {} is less than width {}", operation, args.stride, spec.width);
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

void check_arguments(const RankExchange::Spec& spec, const RankExchange::Args& args) {
  constexpr std::string_view operation = RankExchange::name;
  require(args.rank >= 0 && args.rank < spec.ranks, "{}: rank {} is none of {}", operation, args.rank, spec.ranks);
  require_least(args.rows, 0, operation, "rows");
  std::int64_t width = 0;
  for (std::int32_t rank = 0; rank < spec.ranks; ++rank) {
    const auto index = static_cast<std::size_t>(rank);
    require_least(args.widths[index], 0, operation, "width");
    require(args.kind == RankExchange::Kind::gather || args.widths[index] == args.widths[0],
            "{}: the parts of a sum have other widths", operation);
    require(args.mail.boxes[index] != nullptr, "{}: the box of rank {} is null", operation, rank);
    width += args.widths[index];
  }
  // The elements of a call are counted in 32 bits.
  require(args.rows == 0 || width <= std::int64_t{std::numeric_limits<std::int32_t>::max()} / args.rows,
          "{}: {} rows of {} elements are too many", operation, args.rows, width);
  require_pointer(args.mail.rounds, operation, "rounds");
  require_pointer(args.mail.given_up, operation, "given_up");
  const bool has_part = args.rows * args.widths[static_cast<std::size_t>(args.rank)] > 0;
  require(!has_part || args.part != nullptr, "{}: part is null", operation);
  require(!has_part || args.out != args.part, "{}: out is the part", operation);
  require(args.kind == RankExchange::Kind::gather || args.rows == 0 || args.out != nullptr, "{}: out is null", operation);
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

Support check_spec(const MixStreams::Spec& spec) {
  return spec.dim > 0 ? Support::yes() : Support::no(fmt::format("dim is {}", spec.dim));
}

Support check_spec(const CutRows::Spec& spec) {
  if (!std::isfinite(spec.deviations)) {
    return Support::no(fmt::format("{} deviations", spec.deviations));
  }
  return spec.width > 0 ? Support::yes() : Support::no(fmt::format("width is {}", spec.width));
}

Support check_spec(const AllReduce::Spec& spec) {
  return spec.ranks >= 1 && spec.ranks <= AllReduce::most_ranks
             ? Support::yes()
             : Support::no(fmt::format("{} ranks are not 1 to {}", spec.ranks, AllReduce::most_ranks));
}

Support check_spec(const RankExchange::Spec& spec) { return check_spec(AllReduce::Spec{spec.ranks}); }

Support check_spec(const GatherRows::Spec& spec) {
  return spec.dim > 0 ? Support::yes() : Support::no(fmt::format("dim is {}", spec.dim));
}

}  // namespace rocmforge
