#include "models/config/model_tensors.h"

#include <fmt/format.h>

#include "base/error.h"

namespace rocmforge {

std::string block_tensor(int index, std::string_view part) { return fmt::format("blk.{}.{}", index, part); }

bool has_shape(const GgufTensor& tensor, const Shape& shape) { return tensor.tensor.shape.squeezed() == shape.squeezed(); }

const GgufTensor& expect_tensor(const GgufFile& file, std::string_view name, const Shape& shape) {
  const GgufTensor& found = file.tensor(name);
  if (!has_shape(found, shape)) {
    throw Error(fmt::format("{}: tensor '{}' is {}, expected {}", file.path().string(), name, found.tensor.shape.to_string(),
                            shape.to_string()));
  }
  return found;
}

}  // namespace rocmforge
