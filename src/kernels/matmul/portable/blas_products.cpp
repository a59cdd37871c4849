#include "kernels/matmul/portable/blas_products.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

namespace rocmforge {
namespace {

// Values that both libraries share: hipDataType follows cudaDataType.
constexpr int type_f32 = 0;
constexpr int type_f16 = 2;
constexpr int type_bf16 = 14;
constexpr int preference_workspace_bytes = 1;
constexpr int preference_alignment_a = 5;  // of B, C and D the next three; cuBLASLt only

/// The most that vector loads and bulk copies need; stating more would make the choice depend on the addresses.
constexpr std::uintptr_t most_alignment = 16;

std::uint32_t alignment_of(const void* address) {
  const auto bits = reinterpret_cast<std::uintptr_t>(address) | most_alignment;
  return static_cast<std::uint32_t>(bits & ~(bits - 1));
}

}  // namespace

const BlasNames& blas_names(DeviceKind kind) {
  static constexpr BlasNames cublas{{"libcublasLt.so.13", "libcublasLt.so.12", "libcublasLt.so.11"},
                                    "cublasLtCreate",
                                    "cublasLtDestroy",
                                    "cublasLtMatmulDescCreate",
                                    "cublasLtMatmulDescDestroy",
                                    "cublasLtMatmulDescSetAttribute",
                                    "cublasLtMatrixLayoutCreate",
                                    "cublasLtMatrixLayoutDestroy",
                                    "cublasLtMatmulPreferenceCreate",
                                    "cublasLtMatmulPreferenceDestroy",
                                    "cublasLtMatmulPreferenceSetAttribute",
                                    "cublasLtMatmulAlgoGetHeuristic",
                                    "cublasLtMatmul",
                                    "cublasLtGetStatusString",
                                    68,
                                    3,
                                    1,
                                    64,
                                    true};
  static constexpr BlasNames hipblas{{"libhipblaslt.so.1", "libhipblaslt.so.0", nullptr},
                                     "hipblasLtCreate",
                                     "hipblasLtDestroy",
                                     "hipblasLtMatmulDescCreate",
                                     "hipblasLtMatmulDescDestroy",
                                     "hipblasLtMatmulDescSetAttribute",
                                     "hipblasLtMatrixLayoutCreate",
                                     "hipblasLtMatrixLayoutDestroy",
                                     "hipblasLtMatmulPreferenceCreate",
                                     "hipblasLtMatmulPreferenceDestroy",
                                     "hipblasLtMatmulPreferenceSetAttribute",
                                     "hipblasLtMatmulAlgoGetHeuristic",
                                     "hipblasLtMatmul",
                                     "hipblasLtGetStatusString",
                                     2,
                                     0,
                                     112,
                                     24,
                                     false};
  return kind == DeviceKind::cuda ? cublas : hipblas;
}

std::string BlasApi::describe(int code) const {
  const char* text = status_text ? status_text(code) : nullptr;
  return text != nullptr ? text : fmt::format("status {}", code);
}

BlasProducts::BlasProducts(std::shared_ptr<const BlasApi> api, Driver& driver) : api_(std::move(api)), driver_(&driver) {
  driver_->with_device([&] { call(*api_, api_->create, &handle_); });
}

BlasProducts::~BlasProducts() {
  try {
    driver_->with_device([&] { api_->destroy(handle_); });
  } catch (const Error&) {  // the device is gone, and the handle with it
  }
}

// The library stores matrices by column: its columns are what this program calls rows, of `columns_length` elements.
BlasProducts::Owned BlasProducts::layout(int type, std::int64_t columns_length, std::int64_t columns,
                                         std::int64_t stride) const {
  void* layout = nullptr;
  call(*api_, api_->create_layout, &layout, type, static_cast<std::uint64_t>(columns_length),
       static_cast<std::uint64_t>(columns), stride);
  return {layout, [api = api_](void* made) { api->destroy_layout(made); }};
}

BlasProducts::DescriptorSet BlasProducts::make_descriptors(const Shape& shape) const {
  DescriptorSet descriptors;
  void* operation = nullptr;
  call(*api_, api_->create_operation, &operation, api_->names.compute_f32, type_f32);
  descriptors.operation = {operation, [api = api_](void* made) { api->destroy_operation(made); }};
  const std::int32_t transposed = api_->names.transposed;
  call(*api_, api_->set_operation, operation, api_->names.transpose_a, static_cast<const void*>(&transposed),
       sizeof transposed);
  const int type = shape.bfloat ? type_bf16 : type_f16;
  descriptors.weight = layout(type, shape.k, shape.rows, shape.k);
  descriptors.x = layout(type, shape.k, shape.tokens, shape.x_stride);
  descriptors.out = layout(type_f32, shape.rows, shape.tokens, shape.out_stride);
  descriptors.algorithm = find_algorithm(shape, descriptors);
  return descriptors;
}

std::vector<std::byte> BlasProducts::find_algorithm(const Shape& shape, const DescriptorSet& descriptors) const {
  void* preference = nullptr;
  call(*api_, api_->create_preference, &preference);
  const Owned owner(preference, [&](void* made) { api_->destroy_preference(made); });
  const auto set = [&](int attribute, const auto& value) {
    call(*api_, api_->set_preference, preference, attribute, static_cast<const void*>(&value), sizeof value);
  };
  set(preference_workspace_bytes, std::uint64_t{blas_workspace_bytes});
  if (api_->names.asks_alignment) {
    set(preference_alignment_a, shape.weight_alignment);
    set(preference_alignment_a + 1, shape.x_alignment);
    set(preference_alignment_a + 2, shape.out_alignment);
    set(preference_alignment_a + 3, shape.out_alignment);
  }
  // The algorithm, then the workspace it needs (8 bytes), a status (4), the waves it takes (4) and 16 bytes for later.
  alignas(16) std::array<std::byte, 256> result{};
  int count = 0;
  const int code = api_->find_algorithm(handle_, descriptors.operation.get(), descriptors.weight.get(), descriptors.x.get(),
                                        descriptors.out.get(), descriptors.out.get(), preference, 1, result.data(), &count);
  std::int32_t status = 0;
  std::memcpy(&status, result.data() + api_->names.algorithm_bytes + 8, sizeof status);
  if (code != 0 || count == 0 || status != 0) {
    throw Error(fmt::format("{}: no algorithm for {} rows of {} {} weights with {} tokens, outputs {} apart: {}",
                            api_->find_algorithm.name(), shape.rows, shape.k, shape.bfloat ? "bf16" : "f16", shape.tokens,
                            shape.out_stride, api_->describe(code != 0 ? code : status)));
  }
  return {result.begin(), result.begin() + static_cast<std::ptrdiff_t>(api_->names.algorithm_bytes)};
}

BlasProducts::Shape BlasProducts::shape_of(const BlasProduct& product) {
  return {product.bfloat,
          product.rows,
          product.tokens,
          product.k,
          product.x_stride,
          product.out_stride,
          alignment_of(product.weight),
          alignment_of(product.x),
          alignment_of(product.out)};
}

const BlasProducts::DescriptorSet* BlasProducts::prepare(const BlasProduct& product) {
  const Shape shape = shape_of(product);
  if (const DescriptorSet* known = sets_.find(shape); known != nullptr) {
    return known->algorithm.empty() ? nullptr : known;
  }
  if (sets_.full()) {
    sets_.drop_oldest();  // descriptions on the host: what was launched or recorded does not refer to them
  }
  DescriptorSet& descriptors = sets_.add(shape, DescriptorSet());  // stays without an algorithm when there is none
  driver_->with_device([&] { descriptors = make_descriptors(shape); });
  return &descriptors;
}

void BlasProducts::multiply(const DescriptorSet& descriptors, const BlasProduct& product, void* workspace,
                            StreamHandle stream) {
  driver_->with_device([&] {
    const float alpha = 1.0f;
    const float beta = product.accumulate ? 1.0f : 0.0f;
    call(*api_, api_->multiply, handle_, descriptors.operation.get(), static_cast<const void*>(&alpha), product.weight,
         descriptors.weight.get(), product.x, descriptors.x.get(), static_cast<const void*>(&beta),
         static_cast<const void*>(product.out), descriptors.out.get(), static_cast<void*>(product.out),
         descriptors.out.get(), static_cast<const void*>(descriptors.algorithm.data()), workspace, blas_workspace_bytes,
         stream.value);
  });
}

}  // namespace rocmforge
