#include "server/api/sampler_order.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <vector>

namespace rocmforge {
namespace {

enum class Kind { stage, penalties, dry, absent };

/// A sampler as llama-server and its clients call it.
struct SamplerName {
  std::string_view name;
  char letter = '\0';
  Kind kind = Kind::stage;
  SampleStage stage = SampleStage::none;
};

// The first name of a stage is the one in answers. Those that are absent are off wherever they stand: the fields that would
// turn them on are refused, or no server has them any more.
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
    SamplerName{"adaptive_p", 'a', Kind::absent},
    SamplerName{"tfs_z", '\0', Kind::absent},
    SamplerName{"top_a", '\0', Kind::absent},
};

const SamplerName& find(const Fields& fields, std::string_view name) {
  const auto found = std::ranges::find_if(samplers, [&](const SamplerName& sampler) {
    return sampler.name == name || (name.size() == 1 && sampler.letter == name.front());
  });
  if (found == samplers.end()) {
    fields.fail("samplers", fmt::format("names '{}', which is no sampler of this server", name.substr(0, 40)));
  }
  return *found;
}

std::vector<SamplerName> read_names(const Fields& fields, const Json& order) {
  constexpr std::size_t most = 32;
  std::vector<SamplerName> names;
  if (order.is_string()) {
    const auto& letters = order.get_ref<const std::string&>();
    for (std::size_t i = 0; i < std::min(letters.size(), most); ++i) {
      names.push_back(find(fields, std::string_view(letters).substr(i, 1)));
    }
  } else if (order.is_array() && order.size() <= most) {
    for (const Json& name : order) {
      names.push_back(find(fields, name.is_string() ? std::string_view(name.get_ref<const std::string&>()) : "?"));
    }
  } else {
    fields.fail("samplers", fmt::format("must be a string, or an array of at most {} names", most));
  }
  return names;
}

}  // namespace

void read_sampler_order(Fields& fields, SamplingParams& params) {
  const Json* order = fields.find("samplers");
  if (order == nullptr) {
    return;
  }
  bool has_penalties = false;
  bool has_dry = false;
  params.stages.clear();
  for (const SamplerName& sampler : read_names(fields, *order)) {
    has_penalties = has_penalties || sampler.kind == Kind::penalties;
    has_dry = has_dry || sampler.kind == Kind::dry;
    if (sampler.kind == Kind::stage) {
      if (std::ranges::find(params.stages, sampler.stage) == params.stages.end()) {
        params.stages.push_back(sampler.stage);
      }
    } else if (sampler.kind != Kind::absent && !params.stages.empty()) {
      fields.fail("samplers", fmt::format("names {} behind a filter; penalties and dry come first", sampler.name));
    }
  }
  if (!has_penalties) {
    params.repeat_last_n = 0;
  }
  if (!has_dry) {
    params.dry_multiplier = 0.0f;
  }
  if (std::ranges::find(params.stages, SampleStage::temperature) == params.stages.end()) {
    params.temperature = 1.0f;
  }
}

Json sampler_order_json(const SamplingParams& params) {
  Json order = Json::array({"penalties", "dry"});
  for (const SampleStage stage : params.stages) {
    const auto found = std::ranges::find_if(
        samplers, [stage](const SamplerName& sampler) { return sampler.kind == Kind::stage && sampler.stage == stage; });
    order.push_back(found->name);
  }
  return order;
}

}  // namespace rocmforge
