// Products with weights in all formats.

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "base/math.h"
#include "checks/difference.h"
#include "checks/inputs.h"
#include "checks/problem.h"

namespace rocmforge {
namespace {

/// The form of a call of linear layers: alone, or with operations that the kernel may fuse.
struct MatmulForm {
  std::int64_t tokens = 1;
  bool norm = false;
  bool gated = false;
  bool post_norm = false;
  bool accumulate = false;
};

std::string text_of(const MatmulForm& form) {
  return tokens_text(form.tokens) + (form.post_norm ? ", norm before" : "") + (form.norm ? ", norm" : "") +
         (form.gated ? ", gate and up" : "") + (form.accumulate ? ", added" : "");
}

/// The weight of one kernel: in its own layout, or as the file has it.
const void* weight_of(const MatmulKernel& kernel, const Matmul::Spec& spec, Slot<std::byte> rows, PlacedArrays& place) {
  const std::size_t size_bytes = kernel.packed_bytes(spec);
  if (size_bytes == 0) {
    return place.at(rows);
  }
  return place.packed(size_bytes, [&](std::byte* to, ExecutionContext& context) {
    kernel.pack(spec, place.arrays().all()[rows.index].content.data(), to, context);
  });
}

/// The arrays of MatmulPostNorm; all empty without it.
struct PostNormArrays {
  Slot<float> y, weight, sums;

  PostNormArrays(CallArrays& arrays, std::int64_t tokens, std::int64_t k, PooledRandom& random) {
    y = arrays.input("the product before", random.normals(tokens * k, 2.0f));
    weight = arrays.input("the norm after it", random.uniforms(k, 0.5f, 1.5f));
    sums = arrays.output<float>("sums", tokens, k);
  }
  [[nodiscard]] MatmulPostNorm at(const PlacedArrays& place, std::int64_t k) const {
    return {.y = place.at(y),
            .y_stride = k,
            .weight = place.at(weight),
            .eps = 1e-5f,
            .factor = 0.5f,
            .scale = 1.25f,
            .out = place.at(sums),
            .out_stride = k};
  }
};

CallProblem<Matmul> matmul_problem(const Matmul::Spec& spec, const MatmulForm& form) {
  CallProblem<Matmul> problem;
  PooledRandom random(21);
  const std::int64_t parts = form.gated ? 2 : 1;
  std::vector<Slot<std::byte>> rows;
  for (std::int64_t part = 0; part < parts; ++part) {
    rows.push_back(problem.arrays.stored("weight", random_weight(spec.weight, spec.n, spec.k, random)));
  }
  const auto x = problem.arrays.input("x", random.uniforms(form.tokens * spec.k, -1.0f, 1.0f));
  const auto norm = form.norm ? problem.arrays.input("norm", random.uniforms(spec.k, 0.5f, 1.5f)) : Slot<float>();
  std::optional<PostNormArrays> post;
  if (form.post_norm) {
    post.emplace(problem.arrays, form.tokens, spec.k, random);
  }
  const auto out = form.accumulate ? problem.arrays.updated("out", random.normals(form.tokens * spec.n), spec.n)
                                   : problem.arrays.output<float>("out", form.tokens, spec.n);
  problem.tolerance = matmul_tolerance(spec.weight, form.gated);
  const double products = static_cast<double>(parts * spec.n) * static_cast<double>(spec.k);
  problem.flops = 2.0 * products * static_cast<double>(form.tokens);
  problem.bytes = static_cast<double>(row_bytes(spec.weight, spec.k)) * static_cast<double>(parts * spec.n) +
                  static_cast<double>(form.tokens * (spec.k + spec.n)) * sizeof(float);
  problem.bind = [=](const MatmulKernel& kernel, PlacedArrays& place) {
    std::vector<MatmulOutput> outputs;
    for (const Slot<std::byte> part : rows) {
      outputs.push_back({.dtype = spec.weight,
                         .weight = weight_of(kernel, spec, part, place),
                         .n = spec.n,
                         .out = outputs.empty() ? place.at(out) : nullptr,
                         .stride = spec.n,
                         .accumulate = form.accumulate});
    }
    Matmul::Args args;
    args.x = place.at(x);
    args.tokens = form.tokens;
    args.k = spec.k;
    args.x_stride = spec.k;
    args.workspace = place.scratch(kernel.workspace_bytes(form.tokens, spec.k));
    args.norm_weight = place.at(norm);
    args.norm_eps = 1e-5f;
    args.gated = form.gated;
    const MatmulPostNorm before = post ? post->at(place, spec.k) : MatmulPostNorm();
    return std::function<void()>([&kernel, &place, args, outputs, before, has_before = post.has_value()]() {
      Matmul::Args call = args;
      call.outputs = outputs;
      call.post_norm = has_before ? &before : nullptr;
      kernel.run(call, place.context());
    });
  };
  return problem;
}

CallProblem<HeadMatmul> head_problem(const HeadMatmul::Spec& spec, std::int64_t tokens) {
  CallProblem<HeadMatmul> problem;
  PooledRandom random(22);
  const std::int64_t in = spec.heads * (spec.k + spec.tail);
  const std::int64_t out_width = spec.heads * (spec.n + spec.tail);
  const auto rows = problem.arrays.stored("weight", random_weight(spec.weight, spec.heads * spec.n, spec.k, random));
  const auto x = problem.arrays.input("x", random.uniforms(tokens * in, -1.0f, 1.0f));
  const auto out = problem.arrays.output<float>("out", tokens, out_width);
  problem.tolerance = matmul_tolerance(spec.weight, false);
  problem.flops = 2.0 * static_cast<double>(tokens * spec.heads * spec.n) * static_cast<double>(spec.k);
  const std::size_t file_bytes = row_bytes(spec.weight, spec.k) * static_cast<std::size_t>(spec.n);
  problem.bytes = static_cast<double>(file_bytes) * static_cast<double>(spec.heads) +
                  static_cast<double>(tokens * (in + out_width)) * sizeof(float);
  problem.bind = [=](const HeadMatmulKernel& kernel, PlacedArrays& place) {
    const std::size_t packed = kernel.packed_bytes(spec);
    HeadMatmul::Args args{.x = place.at(x), .x_stride = in, .tokens = tokens};
    args.head_bytes = static_cast<std::int64_t>(packed > 0 ? packed : file_bytes);
    args.weight = place.at(rows);
    if (packed > 0) {
      const auto heads = static_cast<std::size_t>(spec.heads);
      args.weight = place.packed(packed * heads, [&](std::byte* to, ExecutionContext& context) {
        const std::byte* from = place.arrays().all()[rows.index].content.data();
        for (std::size_t head = 0; head < heads; ++head) {
          kernel.pack(spec, from + head * file_bytes, to + head * packed, context);
        }
      });
    }
    args.out = place.at(out);
    args.workspace = place.scratch(kernel.workspace_bytes(spec, tokens));
    return std::function<void()>([&kernel, &place, spec, args] { kernel.run(spec, args, place.context()); });
  };
  return problem;
}

/// A fusion's smallest call and its largest one.
void add_fused(std::vector<MatmulForm>& forms, const std::vector<std::int64_t>& counts, std::int64_t most, MatmulForm form) {
  std::vector<std::int64_t> fused = counts;
  std::erase_if(fused, [most](std::int64_t tokens) { return tokens > most; });
  for (std::size_t i = 0; i < fused.size(); i += std::max<std::size_t>(1, fused.size() - 1)) {
    form.tokens = fused[i];
    forms.push_back(form);
  }
}

std::vector<MatmulForm> forms_of(const KernelUse<Matmul>& use, const ShapeLimits& limits) {
  const MatmulFusions fusions = use.kernel->fusions();
  constexpr std::int64_t of_a_vocabulary = std::int64_t{1} << 28;
  const bool is_head = use.spec.n * use.spec.k > of_a_vocabulary;  // behind a norm alone
  const std::int64_t most = most_product_tokens(limits, use.spec.n);
  const std::vector<std::int64_t> counts = limits.is_alike ? least_token_counts(most) : token_counts(most);
  std::vector<MatmulForm> forms;
  for (const std::int64_t tokens : counts) {
    forms.push_back({.tokens = tokens});
  }
  add_fused(forms, counts, fusions.norm_tokens, {.norm = true});
  if (!is_head) {
    add_fused(forms, counts, fusions.gate_tokens, {.norm = fusions.norm_tokens >= fusions.gate_tokens, .gated = true});
    add_fused(forms, counts, fusions.post_norm_tokens,
              {.norm = fusions.norm_tokens >= fusions.post_norm_tokens, .post_norm = true});
    add_fused(forms, counts, 64, {.accumulate = true});
  }
  return forms;
}

}  // namespace

std::int64_t most_product_tokens(const ShapeLimits& limits, std::int64_t columns) {
  constexpr std::int64_t tile = 128;
  const std::int64_t tiles_of_tokens = limits.units / divide_up(columns, tile) + 1;
  return limits.is_repeated ? std::min(limits.max_tokens, tile * tiles_of_tokens) : limits.max_tokens;
}

double matmul_tolerance(DType weight, bool gated) {
  // The error of few outputs may exceed the average that type_tolerance() is for. An activation's product has two errors.
  return type_tolerance(weight) * (gated ? 4.0 : 2.0);
}

template <>
std::vector<CallShape<Matmul>> shapes_of(const KernelUse<Matmul>& use, const ShapeLimits& limits) {
  std::vector<CallShape<Matmul>> shapes;
  for (const MatmulForm& form : forms_of(use, limits)) {
    const double work =
        static_cast<double>(form.tokens * use.spec.n) * static_cast<double>(use.spec.k) * (form.gated ? 2 : 1);
    shapes.push_back({text_of(form), work, [spec = use.spec, form] { return matmul_problem(spec, form); }, form.tokens});
  }
  return shapes;
}

template <>
std::vector<CallShape<HeadMatmul>> shapes_of(const KernelUse<HeadMatmul>& use, const ShapeLimits& limits) {
  std::vector<CallShape<HeadMatmul>> shapes;
  for (const std::int64_t tokens : few_token_counts(most_product_tokens(limits, use.spec.heads * use.spec.n))) {
    const double work = static_cast<double>(tokens * use.spec.heads * use.spec.n) * static_cast<double>(use.spec.k);
    shapes.push_back({tokens_text(tokens), work, [spec = use.spec, tokens] { return head_problem(spec, tokens); }});
  }
  return shapes;
}

}  // namespace rocmforge
