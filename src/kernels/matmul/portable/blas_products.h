#pragma once

#include <compare>
#include <cstdint>
#include <memory>
#include <vector>

#include "base/recent_map.h"
#include "device/driver.h"
#include "kernels/matmul/portable/blas_api.h"

namespace rocmforge {

/// What the library may use beyond the operands.
inline constexpr std::size_t blas_workspace_bytes = std::size_t{32} << 20;
inline constexpr std::size_t blas_workspace_alignment = 256;

/// out[t, row] (+)= sum_k x[t, k] * weight[row, k] with sums in float.
struct BlasProduct {
  bool bfloat = false;           ///< elements are bfloat16, else binary16
  const void* weight = nullptr;  ///< [rows, k]
  const void* x = nullptr;       ///< [tokens, k], rows x_stride apart
  float* out = nullptr;          ///< [tokens, rows], rows out_stride apart
  std::int64_t rows = 0;
  std::int64_t tokens = 0;
  std::int64_t k = 0;
  std::int64_t x_stride = 0;
  std::int64_t out_stride = 0;
  bool accumulate = false;
};

/// Products on one device. The algorithms that the library chose for the latest shapes are kept, so that a recorded call
/// only launches. Calls come one at a time, as for the driver.
class BlasProducts {
 public:
  /// Throws Error when the library cannot serve the device.
  BlasProducts(std::shared_ptr<const BlasApi> api, Driver& driver);
  ~BlasProducts();
  BlasProducts(const BlasProducts&) = delete;
  BlasProducts& operator=(const BlasProducts&) = delete;

  /// What the library chose for a shape.
  struct DescriptorSet {
    std::shared_ptr<void> operation, weight, x, out;
    std::vector<std::byte> algorithm;  ///< empty: there is none
  };
  /// The set for the product's shape, valid until the next call. Throws Error naming the shape when the library has no
  /// algorithm for it; once that is known the result is null.
  const DescriptorSet* prepare(const BlasProduct& product);
  /// `workspace` is blas_workspace_bytes long. Throws Error when the library refuses.
  void multiply(const DescriptorSet& descriptors, const BlasProduct& product, void* workspace, StreamHandle stream);

  [[nodiscard]] std::size_t num_descriptor_sets() const { return sets_.size(); }

 private:
  using Owned = std::shared_ptr<void>;
  struct Shape {
    bool bfloat;
    std::int64_t rows, tokens, k, x_stride, out_stride;
    std::uint32_t weight_alignment, x_alignment, out_alignment;
    auto operator<=>(const Shape&) const = default;
  };
  static Shape shape_of(const BlasProduct& product);
  DescriptorSet make_descriptors(const Shape& shape) const;
  [[nodiscard]] std::vector<std::byte> find_algorithm(const Shape& shape, const DescriptorSet& descriptors) const;
  [[nodiscard]] Owned layout(int type, std::int64_t columns_length, std::int64_t columns, std::int64_t stride) const;

  std::shared_ptr<const BlasApi> api_;
  Driver* driver_;
  void* handle_ = nullptr;
  /// Prompts have many lengths, but a few at a time; a set takes about 2 KB of the library's memory.
  static constexpr std::size_t most_sets = 512;
  RecentMap<Shape, DescriptorSet> sets_{most_sets};
};

}  // namespace rocmforge
