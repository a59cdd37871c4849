#include "conformance/inputs.h"

namespace rocmforge::test {

std::vector<DType> computing_types() {
  std::vector<DType> types;
  for (std::uint32_t id = 0; id < 64; ++id) {
    if (const auto type = dtype_from_id(id); type && info(*type).computes) {
      types.push_back(*type);
    }
  }
  return types;
}

}  // namespace rocmforge::test
