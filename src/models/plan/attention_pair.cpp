#include "models/plan/attention_pair.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

namespace rocmforge {
namespace {

bool agree(const AttentionBackend& prefill, const Attention::Spec& spec, const KvLayout& layout) {
  KvLayout own = prefill.layout(spec);
  own.block_tokens = layout.block_tokens;
  return own == layout;
}

int rank(const AttentionBackend& kernel) { return static_cast<int>(kernel.priority()); }

/// A forced kernel may support only one phase. The other phase's kernel is then chosen as without a forced one.
std::pair<Candidates<Attention>, Candidates<Attention>> find_candidates(const KernelRegistry& registry,
                                                                        const Attention::Spec& prefill,
                                                                        const Attention::Spec& decode,
                                                                        const DeviceInfo& device, std::string_view forced) {
  auto first = registry.candidates<Attention>(prefill, device, forced);
  auto second = registry.candidates<Attention>(decode, device, forced);
  if (first.able.empty() && !second.able.empty()) {
    first = registry.candidates<Attention>(prefill, device);
  } else if (second.able.empty() && !first.able.empty()) {
    second = registry.candidates<Attention>(decode, device);
  }
  if (first.able.empty() || second.able.empty()) {
    throw first.able.empty() ? nobody_serves(prefill, first, forced) : nobody_serves(decode, second, forced);
  }
  return {std::move(first), std::move(second)};
}

/// The chosen kernel of a phase, and the reasons against the others. `agrees` says whether a kernel can work with the other
/// phase's kernel.
template <class Agrees>
Choice<Attention> choice_of(Candidates<Attention> found, const AttentionBackend& chosen, const AttentionBackend& other,
                            Agrees&& agrees) {
  Choice<Attention> choice{&chosen, std::move(found.refusals)};
  for (const AttentionBackend* kernel : found.able) {
    if (kernel != &chosen) {
      choice.refusals.push_back({std::string(kernel->name()),
                                 agrees(*kernel) ? fmt::format("{} is preferred", chosen.name())
                                                 : fmt::format("wants another layout of the cache than {}", other.name())});
    }
  }
  return choice;
}

}  // namespace

Attention::Spec single_row_spec(Attention::Spec spec) {
  spec.most_rows = 1;
  spec.causal = true;
  return spec;
}

std::string to_string(const KvLayout& layout) {
  const auto name_of = [](KvOrder order) { return order == KvOrder::token_major ? "token-major" : "dimension-major"; };
  return fmt::format("{}, {} KV heads of {}, {} K, {} V, blocks of {} tokens", name(layout.dtype), layout.kv_heads,
                     layout.head_dim, name_of(layout.k_order), name_of(layout.v_order), layout.block_tokens);
}

AttentionPair choose_attention(const KernelRegistry& registry, const Attention::Spec& spec, const DeviceInfo& device,
                               std::string_view forced, const KvLayout* cache) {
  const Attention::Spec decode_spec = single_row_spec(spec);
  auto [prefills, decodes] = find_candidates(registry, spec, decode_spec, device, forced);
  const AttentionBackend* best_prefill = nullptr;
  const AttentionBackend* best_decode = nullptr;
  for (const AttentionBackend* decode : decodes.able) {
    const KvLayout layout = decode->layout(decode_spec);
    if (cache != nullptr && layout != *cache) {
      continue;
    }
    const auto prefill = std::ranges::find_if(prefills.able, [&](const auto* p) { return agree(*p, spec, layout); });
    if (prefill != prefills.able.end() &&
        (best_decode == nullptr || rank(**prefill) + rank(*decode) > rank(*best_prefill) + rank(*best_decode))) {
      best_prefill = *prefill;
      best_decode = decode;
    }
  }
  if (best_decode == nullptr && cache != nullptr) {
    throw Error(
        fmt::format("no attention kernel for {} reads another layer's cache of {}", to_string(spec), to_string(*cache)));
  }
  if (best_decode == nullptr) {
    const AttentionBackend& prefill = *prefills.able[0];
    const AttentionBackend& decode = *decodes.able[0];
    throw Error(
        fmt::format("no two attention kernels for {} agree on the layout of the cache: {} of prefill wants {}, {} of "
                    "decode wants {}",
                    to_string(spec), prefill.name(), to_string(prefill.layout(spec)), decode.name(),
                    to_string(decode.layout(decode_spec))));
  }
  const KvLayout layout = best_decode->layout(decode_spec);
  return {choice_of(std::move(prefills), *best_prefill, *best_decode,
                    [&](const AttentionBackend& other) { return agree(other, spec, layout); }),
          choice_of(std::move(decodes), *best_decode, *best_prefill,
                    [&](const AttentionBackend& other) { return agree(*best_prefill, spec, other.layout(decode_spec)); }),
          layout};
}

Choice<Attention> choose_beside(const AttentionPair& pair, const KernelRegistry& registry, const Attention::Spec& spec,
                                const DeviceInfo& device) {
  auto found = registry.candidates<Attention>(spec, device);
  const auto agrees = [&](const AttentionBackend& kernel) { return agree(kernel, spec, pair.layout); };
  const auto best = std::ranges::find_if(found.able, [&](const auto* kernel) { return agrees(*kernel); });
  if (best == found.able.end()) {
    throw nobody_serves(spec, found, {});
  }
  const AttentionBackend& chosen = **best;
  return choice_of(std::move(found), chosen, *pair.decode.kernel, agrees);
}

}  // namespace rocmforge
