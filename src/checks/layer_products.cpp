#include "checks/layer_products.h"

#include <algorithm>
#include <utility>
#include <variant>

namespace rocmforge {
namespace {

/// The layer with the kernel that would be chosen for all of its weights; without one where there is none, or another than
/// `wanted`.
LayerProducts with_kernel(LayerProducts layer, const KernelRegistry& registry, const DeviceInfo& device,
                          const WantsKernel& wanted) {
  for (const std::vector<Matmul::Spec>& call : layer.calls) {
    for (const Matmul::Spec& spec : call) {
      const Candidates<Matmul> found = registry.candidates<Matmul>(spec, device);
      const MatmulKernel* const best = found.able.empty() ? nullptr : found.able.front();
      if (best == nullptr || (layer.kernel != nullptr && layer.kernel != best) || !wanted(*best)) {
        layer.kernel = nullptr;
        return layer;
      }
      layer.kernel = best;
    }
  }
  return layer;
}

LayerProducts layer_of(std::string name, std::int64_t hidden, std::int64_t kv, std::int64_t ffn, DType usual, DType better) {
  return {.name = std::move(name),
          .calls = {{{{usual, hidden, hidden}},
                     {{usual, ffn, hidden}, {usual, ffn, hidden}},
                     {{better, hidden, ffn}},
                     {{usual, hidden, hidden}, {usual, kv, hidden}, {better, kv, hidden}}}}};
}

}  // namespace

std::string_view name(LayerProduct product) {
  constexpr std::array<std::string_view, all_layer_products.size()> names = {"attn_output", "ffn_gate_up", "ffn_down",
                                                                             "attn_qkv"};
  return names[static_cast<std::size_t>(product)];
}

std::int64_t LayerProducts::rows(LayerProduct product) const {
  std::int64_t rows = 0;
  for (const Matmul::Spec& spec : (*this)[product]) {
    rows += spec.n;
  }
  return rows;
}

std::int64_t LayerProducts::gate_elems() const {
  return experts ? experts->gate_up.used * experts->gate_up.n : (*this)[LayerProduct::gate_up][0].n;
}

bool LayerProducts::fits_together() const {
  const auto of_one_input = [](const std::vector<Matmul::Spec>& call) {
    return !call.empty() && std::ranges::all_of(call, [&](const Matmul::Spec& spec) { return spec.k == call[0].k; });
  };
  const std::vector<Matmul::Spec>& output = (*this)[LayerProduct::attention_output];
  const std::vector<Matmul::Spec>& up = (*this)[LayerProduct::gate_up];
  const std::vector<Matmul::Spec>& down = (*this)[LayerProduct::down];
  const std::vector<Matmul::Spec>& qkv = (*this)[LayerProduct::qkv];
  if (!of_one_input(output) || output.size() != 1 || !of_one_input(qkv)) {
    return false;
  }
  const std::int64_t hidden = output[0].n;
  if (qkv[0].k != hidden || rows(LayerProduct::qkv) < output[0].k) {
    return false;
  }
  if (experts) {
    return up.empty() && down.empty() && experts->route.hidden == hidden && experts->gate_up.k == hidden &&
           experts->route.route.experts == experts->gate_up.experts &&
           experts->route.route.taken() == experts->gate_up.used && experts->down.k == experts->gate_up.n &&
           experts->down.n == hidden;
  }
  return of_one_input(up) && up.size() == 2 && up[0].n == up[1].n && up[0].k == hidden && of_one_input(down) &&
         down.size() == 1 && down[0].k == up[0].n && down[0].n == hidden;
}

std::string LayerProducts::spec() const {
  std::string text;
  for (const std::vector<Matmul::Spec>& call : calls) {
    for (std::size_t i = 0; i < call.size(); ++i) {
      text += (i > 0 ? " + " : text.empty() ? "" : "; ") + to_string(call[i]);
    }
  }
  if (norms) {
    text += "; norms " + to_string(norms->spec);
  }
  return experts ? text + "; router " + to_string(experts->route) + "; experts " + to_string(experts->gate_up) + ", " +
                       to_string(experts->down)
                 : text;
}

std::vector<LayerProducts> layers_of_models(const KernelRegistry& registry, const DeviceInfo& device,
                                            const WantsKernel& wanted) {
  std::vector<LayerProducts> layers;
  for (LayerProducts& layer : std::array{layer_of("Llama 2 7B", 4096, 4096, 11008, DType::q4_0, DType::q4_0),
                                         layer_of("Llama 3 8B", 4096, 1024, 14336, DType::q4_k, DType::q6_k)}) {
    LayerProducts served = with_kernel(std::move(layer), registry, device, wanted);
    if (served.kernel != nullptr) {
      layers.push_back(std::move(served));
    }
  }
  return layers;
}

std::vector<LayerProducts> norm_layers_of_models(const KernelRegistry& registry, const DeviceInfo& device,
                                                 const WantsKernel& wanted) {
  // Gemma 3 4B.
  constexpr std::int64_t hidden = 2560, q = 2048, kv = 1024, ffn = 10240;
  constexpr DType type = DType::q4_0;
  LayerProducts layer =
      with_kernel({.name = "Gemma 3 4B",
                   .calls = {{{{type, hidden, q}},
                              {{type, ffn, hidden}, {type, ffn, hidden}},
                              {{type, hidden, ffn}},
                              {{type, q, hidden}, {type, kv, hidden}, {type, kv, hidden}}}},
                   .norms = LayerNorms{.spec = {.dim = hidden, .eps = 1e-6f}}},
                  registry, device, wanted);
  const Candidates<RmsNorm> norm = registry.candidates<RmsNorm>(layer.norms->spec, device);
  if (layer.kernel == nullptr || norm.able.empty()) {
    return {};
  }
  layer.norms->kernel = norm.able.front();
  return {std::move(layer)};
}

std::vector<LayerProducts> expert_layers_of_models(const KernelRegistry& registry, const DeviceInfo& device,
                                                   const WantsKernel& wanted) {
  // Qwen3 30B-A3B, with as many experts as a token takes.
  constexpr std::int64_t hidden = 2048, q = 4096, kv = 512, width = 768;
  constexpr std::int32_t used = 8;
  LayerProducts layer{.name = "Qwen3 30B-A3B",
                      .calls = {{{{DType::q4_k, hidden, q}},
                                 {},
                                 {},
                                 {{DType::q4_k, q, hidden}, {DType::q4_k, kv, hidden}, {DType::q6_k, kv, hidden}}}}};
  LayerExperts experts{.route = {.route = {.experts = used, .used = used, .normalise = true}, .hidden = hidden},
                       .gate_up = {DType::q4_k, used, width, hidden, used},
                       .down = {DType::q6_k, used, hidden, width, used}};
  const Candidates<RouteRows> router = registry.candidates<RouteRows>(experts.route, device);
  const Candidates<ExpertMatmul> up = registry.candidates<ExpertMatmul>(experts.gate_up, device);
  const Candidates<ExpertMatmul> down = registry.candidates<ExpertMatmul>(experts.down, device);
  layer = with_kernel(std::move(layer), registry, device, wanted);
  if (layer.kernel == nullptr || router.able.empty() || up.able.empty() || down.able.empty() ||
      up.able.front() != down.able.front()) {
    return {};
  }
  experts.router = router.able.front();
  experts.kernel = up.able.front();
  layer.experts = experts;
  return {std::move(layer)};
}

std::optional<LayerProducts> layer_of_plan(const std::vector<PlannedOperation>& plan, const WantsKernel& wanted) {
  LayerProducts layer{.name = "this model", .calls = {}};
  for (const PlannedOperation& operation : plan) {
    const auto product = std::ranges::find(all_layer_products, operation_kind(operation.operation),
                                           [](LayerProduct one) { return name(one); });
    if (operation.side == Side::host || product == all_layer_products.end() || !layer[*product].empty()) {
      continue;
    }
    for (const KernelRegistry::AnyUse& any : operation.uses) {
      const auto* const use = std::get_if<KernelUse<Matmul>>(&any);
      if (use == nullptr || !wanted(*use->kernel) || (layer.kernel != nullptr && layer.kernel != use->kernel)) {
        return std::nullopt;
      }
      layer.kernel = use->kernel;
      layer.calls[static_cast<std::size_t>(*product)].push_back(use->spec);
    }
  }
  return layer.kernel != nullptr && layer.fits_together() ? std::optional(std::move(layer)) : std::nullopt;
}

}  // namespace rocmforge
