#include "schedule/sampler_order.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstddef>

#include "base/error.h"

namespace rocmforge {
namespace {

constexpr std::size_t most_names = 32;

enum class Kind { stage, penalties, dry, adaptive_p, absent };

/// A sampler as llama.cpp and its clients call it.
struct SamplerName {
  std::string_view name;
  char letter = '\0';
  Kind kind = Kind::stage;
  SampleStage stage = SampleStage::none;
};

// The first name of a stage is the one in answers. Those that are absent are off wherever they stand: no server has them any
// more.
constexpr std::array samplers = {
    SamplerName{"penalties", 'e', Kind::penalties},
    SamplerName{"dry", 'd', Kind::dry},
    SamplerName{"top_n_sigma", 's', Kind::stage, SampleStage::top_n_sigma},
    SamplerName{"top_k", 'k', Kind::stage, SampleStage::top_k},
    SamplerName{"typ_p", 'y', Kind::stage, SampleStage::typical_p},
    SamplerName{"top_p", 'p', Kind::stage, SampleStage::top_p},
    SamplerName{"min_p", 'm', Kind::stage, SampleStage::min_p},
    SamplerName{"xtc", 'x', Kind::stage, SampleStage::xtc},
    SamplerName{"temperature", 't', Kind::stage, SampleStage::temperature},
    SamplerName{"typical_p", '\0', Kind::stage, SampleStage::typical_p},
    SamplerName{"typical", '\0', Kind::stage, SampleStage::typical_p},
    SamplerName{"adaptive_p", 'a', Kind::adaptive_p},
    SamplerName{"tfs_z", '\0', Kind::absent},
    SamplerName{"top_a", '\0', Kind::absent},
};

const SamplerName& find(std::string_view name) {
  const auto found = std::ranges::find_if(samplers, [&](const SamplerName& sampler) {
    return sampler.name == name || (name.size() == 1 && sampler.letter == name.front());
  });
  if (found == samplers.end()) {
    throw Error(fmt::format("names '{}', which is no sampler of this server", name.substr(0, 40)));
  }
  return *found;
}

}  // namespace

bool SamplerOrder::names(SampleStage stage) const { return std::ranges::find(stages, stage) != stages.end(); }

SamplerOrder sampler_order(std::span<const std::string_view> names) {
  if (names.size() > most_names) {
    throw Error(fmt::format("has more than {} names", most_names));
  }
  SamplerOrder order{.penalties = false, .dry = false, .adaptive_p = false, .stages = {}};
  for (const std::string_view name : names) {
    const SamplerName& sampler = find(name);
    const bool comes_first = sampler.kind == Kind::penalties || sampler.kind == Kind::dry;
    if (comes_first && !order.stages.empty()) {
      throw Error(fmt::format("names {} behind a filter; penalties and dry come first", sampler.name));
    }
    order.penalties = order.penalties || sampler.kind == Kind::penalties;
    order.dry = order.dry || sampler.kind == Kind::dry;
    order.adaptive_p = order.adaptive_p || sampler.kind == Kind::adaptive_p;
    if (sampler.kind == Kind::stage && !order.names(sampler.stage)) {
      order.stages.push_back(sampler.stage);
    }
  }
  return order;
}

SamplerOrder sampler_order_of_names(std::string_view text) {
  std::vector<std::string_view> names;
  while (!text.empty() && names.size() <= most_names) {
    const std::size_t end = std::min(text.find(';'), text.size());
    names.push_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return sampler_order(names);
}

SamplerOrder sampler_order_of_letters(std::string_view text) {
  std::vector<std::string_view> names;
  for (std::size_t i = 0; i < std::min(text.size(), most_names + 1); ++i) {
    names.push_back(text.substr(i, 1));
  }
  return sampler_order(names);
}

std::vector<std::string_view> names_of(const SamplerOrder& order) {
  std::vector<std::string_view> names;
  const auto add = [&](bool acts, std::string_view name) {
    if (acts) {
      names.push_back(name);
    }
  };
  add(order.penalties, "penalties");
  add(order.dry, "dry");
  for (const SampleStage stage : order.stages) {
    add(true, std::ranges::find(samplers, stage, &SamplerName::stage)->name);
  }
  return names;
}

}  // namespace rocmforge
