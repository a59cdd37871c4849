#include "kernels/fake_blas.h"

#include <cstddef>
#include <cstring>

#include "base/half.h"

// cuBLASLt's functions as BlasApi declares them.

namespace {

constexpr int not_initialised = 1;
constexpr int execution_failed = 13;
constexpr int not_supported = 15;
constexpr int type_f16 = 2;

FakeBlas state;

struct Layout {
  int type;
  std::int64_t length;  ///< of a column
  std::int64_t columns;
  std::int64_t stride;
};

float element(const void* matrix, const Layout& layout, std::int64_t column, std::int64_t at) {
  const std::uint16_t bits = static_cast<const std::uint16_t*>(matrix)[column * layout.stride + at];
  return layout.type == type_f16 ? rocmforge::half_to_float(bits) : rocmforge::bfloat16_to_float(bits);
}

}  // namespace

extern "C" {

FakeBlas* fake_blas() { return &state; }

int cublasLtCreate(void** handle) {
  *handle = &state;
  return state.refuses_handles ? not_initialised : 0;
}
int cublasLtDestroy(void*) { return 0; }

int cublasLtMatmulDescCreate(void** operation, int, int) {
  ++state.descriptions;
  *operation = new int(0);
  return 0;
}
int cublasLtMatmulDescDestroy(void* operation) {
  --state.descriptions;
  delete static_cast<int*>(operation);
  return 0;
}
int cublasLtMatmulDescSetAttribute(void*, int, const void*, std::size_t) { return 0; }

int cublasLtMatrixLayoutCreate(void** layout, int type, std::uint64_t length, std::uint64_t columns, std::int64_t stride) {
  *layout = new Layout{type, static_cast<std::int64_t>(length), static_cast<std::int64_t>(columns), stride};
  return 0;
}
int cublasLtMatrixLayoutDestroy(void* layout) {
  delete static_cast<Layout*>(layout);
  return 0;
}

int cublasLtMatmulPreferenceCreate(void** preference) {
  *preference = &state;
  return 0;
}
int cublasLtMatmulPreferenceDestroy(void*) { return 0; }
int cublasLtMatmulPreferenceSetAttribute(void*, int, const void*, std::size_t) { return 0; }

int cublasLtMatmulAlgoGetHeuristic(void*, void*, void* a, void*, void*, void*, void*, int, void*, int* count) {
  ++state.searches;
  const bool refused = static_cast<const Layout*>(a)->columns == state.refused_rows;
  *count = refused ? 0 : 1;
  return refused ? not_supported : 0;
}

int cublasLtMatmul(void*, void*, const void*, const void* a, void* a_layout, const void* b, void* b_layout, const void* beta,
                   const void*, void*, void* d, void* d_layout, const void*, void*, std::size_t, void*) {
  if (state.fails) {
    return execution_failed;
  }
  ++state.products;
  const auto& weight = *static_cast<const Layout*>(a_layout);
  const auto& x = *static_cast<const Layout*>(b_layout);
  const std::int64_t stride = static_cast<const Layout*>(d_layout)->stride;
  float scale = 0.0F;
  std::memcpy(&scale, beta, sizeof scale);
  for (std::int64_t token = 0; token < x.columns; ++token) {
    for (std::int64_t row = 0; row < weight.columns; ++row) {
      float& out = static_cast<float*>(d)[token * stride + row];
      float sum = state.is_wrong ? 1.0F : 0.0F;
      for (std::int64_t at = 0; at < weight.length; ++at) {
        sum += element(a, weight, row, at) * element(b, x, token, at);
      }
      out = sum + (scale != 0.0F ? scale * out : 0.0F);
    }
  }
  return 0;
}

const char* cublasLtGetStatusString(int status) {
  return status == not_supported ? "NOT_SUPPORTED" : status == execution_failed ? "EXECUTION_FAILED" : "NOT_INITIALIZED";
}
}
