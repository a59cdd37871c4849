#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "device/device_info.h"
#include "device/runtime_library.h"

namespace rocmforge {

/// How cuBLASLt and hipBLASLt name the same interface. Functions take the same arguments in both; enums and the size of an
/// algorithm differ.
struct BlasNames {
  std::array<const char*, 3> libraries;  ///< the newest first, null where there are fewer
  const char* create;
  const char* destroy;
  const char* create_operation;
  const char* destroy_operation;
  const char* set_operation;
  const char* create_layout;
  const char* destroy_layout;
  const char* create_preference;
  const char* destroy_preference;
  const char* set_preference;
  const char* find_algorithm;
  const char* multiply;
  const char* status_text;
  int compute_f32;
  int transpose_a;  ///< attribute of an operation
  int transposed;   ///< its value
  std::size_t algorithm_bytes;
  bool asks_alignment;  ///< the preference has attributes for the alignment of addresses
};
const BlasNames& blas_names(DeviceKind kind);

/// The part of the library that is used here, declared after its published interface: pointers stand for its handle types,
/// integers for its enums.
class BlasApi {
 public:
  /// Throws Error with the loader's reason when none of `libraries` can be opened, or when one is too old.
  BlasApi(const BlasNames& vendor, std::span<const char* const> libraries) : names(vendor), library(libraries) {}

  const BlasNames& names;
  RuntimeLibrary library;

  Entry<int(void**)> create{library, names.create};
  Entry<int(void*)> destroy{library, names.destroy};
  Entry<int(void**, int, int)> create_operation{library, names.create_operation};
  Entry<int(void*)> destroy_operation{library, names.destroy_operation};
  Entry<int(void*, int, const void*, std::size_t)> set_operation{library, names.set_operation};
  Entry<int(void**, int, std::uint64_t, std::uint64_t, std::int64_t)> create_layout{library, names.create_layout};
  Entry<int(void*)> destroy_layout{library, names.destroy_layout};
  Entry<int(void**)> create_preference{library, names.create_preference};
  Entry<int(void*)> destroy_preference{library, names.destroy_preference};
  Entry<int(void*, int, const void*, std::size_t)> set_preference{library, names.set_preference};
  Entry<int(void*, void*, void*, void*, void*, void*, void*, int, void*, int*)> find_algorithm{library,
                                                                                               names.find_algorithm};
  Entry<int(void*, void*, const void*, const void*, void*, const void*, void*, const void*, const void*, void*, void*, void*,
            const void*, void*, std::size_t, void*)>
      multiply{library, names.multiply};
  Entry<const char*(int)> status_text{library, names.status_text, Presence::optional};

  /// "CUBLAS_STATUS_NOT_SUPPORTED", "status 7"
  [[nodiscard]] std::string describe(int code) const;
};

}  // namespace rocmforge
