#include "server/api/sampler_order.h"

#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace rocmforge {
namespace {

SamplerOrder read(const Json& value) {
  if (value.is_string()) {
    return sampler_order_of_letters(value.get_ref<const std::string&>());
  }
  if (!value.is_array()) {
    throw Error("must be a string, or an array of names");
  }
  std::vector<std::string_view> names;
  for (const Json& name : value) {
    names.push_back(name.is_string() ? std::string_view(name.get_ref<const std::string&>()) : "?");
  }
  return sampler_order(names);
}

}  // namespace

void read_sampler_order(Fields& fields, SamplingParams& params) {
  const Json* value = fields.find("samplers");
  if (value == nullptr) {
    return;
  }
  try {
    params.order = read(*value);
  } catch (const Error& error) {
    fields.fail("samplers", error.what());
  }
}

Json sampler_order_json(const SamplingParams& params) {
  Json order = Json::array();
  for (const std::string_view name : names_of(params.order)) {
    order.push_back(name);
  }
  return order;
}

}  // namespace rocmforge
