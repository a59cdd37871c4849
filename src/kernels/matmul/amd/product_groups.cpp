#include "kernels/matmul/amd/product_groups.h"

#include <algorithm>
#include <memory>

#include "base/error.h"

namespace rocmforge::amd {
namespace {

struct ProductGroups {
  double a_unit = 1.0;
};

ProductGroups& groups_of(Device& device) {
  return device.kept<ProductGroups>([] { return std::make_unique<ProductGroups>(); });
}

}  // namespace

void set_product_groups(Device& device, double a_unit) {
  check(std::ranges::find(product_group_choices, a_unit) != product_group_choices.end(), "no choice of work-groups a unit");
  groups_of(device).a_unit = a_unit;
}

double product_groups(Device& device) { return groups_of(device).a_unit; }

}  // namespace rocmforge::amd
