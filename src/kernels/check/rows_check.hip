// Operations on rows of floats as plain as they can be written: one output element a thread, or a whole row where a norm may
// be in place; everything is computed in double.

#include "kernels/check/check_code.h"
#include "kernels/check/rows_args.h"

namespace rocmforge::check_kernels {

ROCMFORGE_CHECK_KERNEL check_norm(NormCheckArgs args) {
  for_each_element(args.rows, [&](std::int64_t row) {
    const std::int64_t group = row % args.groups;
    const std::int64_t at = row / args.groups * args.stride + group * args.group_stride;
    const auto x = [&](std::int64_t i) { return static_cast<double>(args.x[at + i]); };
    const auto count = static_cast<double>(args.dim);
    double mean = 0.0;
    for (std::int64_t i = 0; i < args.dim && args.centred != 0; ++i) {
      mean += x(i) / count;
    }
    double squares = 0.0;
    for (std::int64_t i = 0; i < args.dim; ++i) {
      squares += (x(i) - mean) * (x(i) - mean);
    }
    const double over_deviation = 1.0 / sqrt(squares / count + args.eps);
    for (std::int64_t i = 0; i < args.dim; ++i) {
      const std::int64_t w = group * args.dim + i;
      double value = (x(i) - mean) * over_deviation * static_cast<double>(args.weight[w]);
      value += args.bias != nullptr ? static_cast<double>(args.bias[w]) : 0.0;
      if (args.residual != nullptr) {
        value = (static_cast<double>(args.residual[at + i]) + args.factor * value) * args.scale;
      }
      args.out[at + i] = static_cast<float>(value);
    }
  });
}

ROCMFORGE_CHECK_KERNEL check_activation(ActivationCheckArgs args) {
  for_each_element(args.tokens * args.width, [&](std::int64_t i) {
    const std::int64_t t = i / args.width;
    const std::int64_t column = i % args.width;
    const auto up = static_cast<double>(args.up[t * args.up_stride + column]);
    const double gate = args.gate != nullptr ? static_cast<double>(args.gate[t * args.stride + column]) : up;
    args.out[i] = static_cast<float>(activate(args.activation, gate, args.gate != nullptr ? up : 1.0));
  });
}

ROCMFORGE_CHECK_KERNEL check_residual(ResidualCheckArgs args) {
  for_each_element(args.count, [&](std::int64_t i) {
    args.out[i] =
        static_cast<float>((static_cast<double>(args.a[i]) + args.factor * static_cast<double>(args.b[i])) * args.scale);
  });
}

__device__ inline double opening(OutputGate::Gate gate, double x) {
  switch (gate) {
    case OutputGate::Gate::sigmoid:
      return 1.0 / (1.0 + exp(-x));
    case OutputGate::Gate::silu:
      return x / (1.0 + exp(-x));
    case OutputGate::Gate::softplus:
      return x > 30.0 ? x : log1p(exp(x));
    case OutputGate::Gate::plain:
      break;
  }
  return x;
}

ROCMFORGE_CHECK_KERNEL check_output_gate(OutputGateCheckArgs args) {
  for_each_element(args.tokens * args.heads, [&](std::int64_t index) {
    const std::int64_t t = index / args.heads;
    const std::int64_t first = index % args.heads * args.dim;
    const float* const x = args.x + t * args.x_stride + first;
    const float* const gate = args.gate + t * args.gate_stride + (args.of_heads != 0 ? index % args.heads : first);
    double squares = 0.0;
    for (int i = 0; i < args.dim; ++i) {
      squares += static_cast<double>(x[i]) * static_cast<double>(x[i]);
    }
    const double scale = 1.0 / sqrt(squares / args.dim + args.eps);
    for (int i = 0; i < args.dim; ++i) {
      const double norm = args.weight != nullptr ? scale * static_cast<double>(args.weight[i]) : 1.0;
      args.out[index * args.dim + i] = static_cast<float>(
          static_cast<double>(x[i]) * norm * opening(args.form, static_cast<double>(gate[args.of_heads != 0 ? 0 : i])));
    }
  });
}

ROCMFORGE_CHECK_KERNEL check_gather(GatherCheckArgs args) {
  for_each_element(args.count * args.dim,
                   [&](std::int64_t i) { args.out[i] = args.x[args.ids[i / args.dim] * args.dim + i % args.dim]; });
}

ROCMFORGE_CHECK_KERNEL check_overwrite(OverwriteCheckArgs args) {
  for_each_element(args.count * args.dim, [&](std::int64_t i) {
    float& to = args.out[args.ids[i / args.dim] * args.dim + i % args.dim];
    const float from = args.x[args.from[i / args.dim] * args.x_stride + i % args.dim];
    to = args.add != 0 ? to + from : from;
  });
}

ROCMFORGE_CHECK_KERNEL check_copy_heads(CopyHeadsCheckArgs args) {
  for_each_element(args.tokens * args.heads * args.out_dim, [&](std::int64_t i) {
    const std::int64_t head = i / args.out_dim % args.heads;
    const std::int64_t t = args.first_token + i / args.out_dim / args.heads;
    args.out[(t * args.out_heads + args.first_head + head) * args.out_dim + i % args.out_dim] =
        args.x[(t * args.heads + head) * args.dim + i % args.out_dim];
  });
}

}  // namespace rocmforge::check_kernels
