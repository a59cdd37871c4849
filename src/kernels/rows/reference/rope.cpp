#include <algorithm>
#include <cmath>
#include <vector>

#include "kernels/check/arguments/arguments.h"
#include "kernels/formats/reference/kv_element.h"
#include "kernels/launch/parallel.h"
#include "kernels/launch/reference_kernel.h"
#include "kernels/rows/kernels.h"

namespace rocmforge {
namespace {

/// `weight` may be null.
void normalise(double* head, std::int32_t dim, const float* weight, float eps) {
  double sum = 0.0;
  for (std::int32_t i = 0; i < dim; ++i) {
    sum += head[i] * head[i];
  }
  const double scale = 1.0 / std::sqrt(sum / dim + double{eps});
  for (std::int32_t i = 0; i < dim; ++i) {
    head[i] *= weight != nullptr ? scale * double{weight[i]} : scale;
  }
}

/// A head of V as it is stored.
void prepare_value(const float* v, const RopeAppend::Spec& spec, std::vector<double>& head, std::vector<float>& out) {
  head.assign(v, v + spec.head_dim);
  if (spec.value_norm) {
    normalise(head.data(), spec.head_dim, nullptr, spec.norm_eps);
  }
  if (spec.layout.dtype.v_rotated) {
    turn_by_hadamard(head.data(), spec.head_dim);
  }
  std::ranges::transform(head, out.begin(), [](double value) { return static_cast<float>(value); });
}

/// The angle is a product in float, as the models were trained with; its sine and cosine are exact.
/// `positions`: one on each axis.
void rotate(double* head, const RopeAppend::Spec& spec, const RopeAppend::Args& args, const std::int32_t* positions) {
  if (spec.kind == RopeKind::none) {
    return;
  }
  const std::int32_t pairs = spec.n_rot / 2;
  for (std::int32_t p = 0; p < pairs; ++p) {
    const std::int32_t axis = args.batch.position_axes > 1 ? args.axes[p] : 0;
    const double angle = double{static_cast<float>(positions[axis]) * args.inverse_frequency[p]};
    const double cosine = std::cos(angle) * double{spec.magnitude};
    const double sine = std::sin(angle) * double{spec.magnitude};
    double& first = head[spec.kind == RopeKind::adjacent ? 2 * p : p];
    double& second = head[spec.kind == RopeKind::adjacent ? 2 * p + 1 : p + pairs];
    const double turned = first * cosine - second * sine;
    second = first * sine + second * cosine;
    first = turned;
  }
}

double query_factor(const RopeAppend::Spec& spec, std::int32_t position) {
  if (spec.temperature_scale == 0.0f) {
    return 1.0;
  }
  return 1.0 +
         double{spec.temperature_scale} * std::log(1.0 + (position + spec.temperature_ahead) / spec.temperature_length);
}

class ReferenceRopeAppend final : public ReferenceKernel<OpKernel<RopeAppend>> {
 public:
  [[nodiscard]] Support supports(const RopeAppend::Spec& spec, const DeviceInfo&) const override { return check_spec(spec); }

  void run(const RopeAppend::Spec& spec, const RopeAppend::Args& args, ExecutionContext& context) const override {
    check_arguments(spec, args);
    for_each_range(context, args.batch.num_tokens, 1, [&](std::int64_t begin, std::int64_t end) {
      append_tokens(spec, args, static_cast<std::int32_t>(begin), static_cast<std::int32_t>(end));
    });
  }

 private:
  static void append_tokens(const RopeAppend::Spec& spec, const RopeAppend::Args& args, std::int32_t begin,
                            std::int32_t end) {
    const KvLayout& layout = spec.layout;
    std::vector<double> head(static_cast<std::size_t>(spec.head_dim));
    std::vector<float> turned(head.size());
    for (std::int32_t t = begin; t < end; ++t) {
      const std::int32_t* positions = args.batch.positions + std::int64_t{t} * args.batch.position_axes;
      for (std::int32_t h = 0; h < spec.q_heads; ++h) {
        float* q = args.q + t * args.stride + std::int64_t{h} * spec.head_dim;
        head.assign(q, q + spec.head_dim);
        prepare(head, spec, args, args.q_norm, positions);
        for (std::int32_t i = 0; i < spec.head_dim; ++i) {
          q[i] = static_cast<float>(head[static_cast<std::size_t>(i)] * query_factor(spec, *positions));
        }
      }
      const std::int32_t s = args.batch.sequence_of[t];
      const std::int32_t cell = args.batch.cell(s, t);
      const std::int32_t slot = cell % layout.block_tokens;
      for (std::int32_t h = 0; spec.append && h < layout.kv_heads; ++h) {
        const float* k = args.k + t * args.stride + std::int64_t{h} * spec.head_dim;
        const float* v = args.v + t * args.stride + std::int64_t{h} * spec.head_dim;
        head.assign(k, k + spec.head_dim);
        prepare(head, spec, args, args.k_norm, positions);
        std::ranges::transform(head, turned.begin(), [](double value) { return static_cast<float>(value); });
        kv_head_at(layout, args.cache, args.batch, s, cell, false, h).store(slot, turned.data());
        prepare_value(v, spec, head, turned);
        kv_head_at(layout, args.cache, args.batch, s, cell, true, h).store(slot, turned.data());
      }
    }
  }

  static void prepare(std::vector<double>& head, const RopeAppend::Spec& spec, const RopeAppend::Args& args,
                      const float* norm, const std::int32_t* positions) {
    if (spec.head_norm && !spec.norm_after_turn) {
      normalise(head.data(), spec.head_dim, norm, spec.norm_eps);
    }
    rotate(head.data(), spec, args, positions);
    if (spec.head_norm && spec.norm_after_turn) {
      normalise(head.data(), spec.head_dim, norm, spec.norm_eps);
    }
    if (spec.layout.dtype.k_rotated) {
      turn_by_hadamard(head.data(), spec.head_dim);
    }
  }
};

}  // namespace

std::unique_ptr<OpKernel<RopeAppend>> make_reference_rope_append() { return std::make_unique<ReferenceRopeAppend>(); }

}  // namespace rocmforge
