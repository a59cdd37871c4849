#pragma once

#include <memory>
#include <span>
#include <string>

#include "device/device.h"
#include "kernels/matmul/portable/blas_products.h"

namespace rocmforge {

/// The vendor's matrix library on one device, for as long as the device is open. It is opened once and tried with small
/// products; if that fails, it computes no product and `problem` says why. A later product that the library refuses is
/// logged and left to the caller; after several refusals the library is no longer used.
class VendorBlas {
 public:
  /// The instance of this device. `libraries`: the files to try when the device's instance is first asked for.
  static VendorBlas& of(Device& device, std::span<const std::string> libraries);

  VendorBlas(Device& device, std::span<const std::string> libraries);

  /// Why the library multiplies nothing, empty while it does.
  [[nodiscard]] const std::string& problem() const { return problem_; }

  /// The library's choice for this product, or null when it cannot compute the product. Valid until the next call.
  const BlasProducts::DescriptorSet* prepare(const BlasProduct& product);
  /// Puts the product on the stream. False when the library refuses it: nothing has then been put on the stream.
  bool multiply(const BlasProducts::DescriptorSet& descriptors, const BlasProduct& product, void* workspace,
                StreamHandle stream);

 private:
  void refused(const Error& error);

  std::unique_ptr<BlasProducts> products_;  ///< null where the library cannot be opened
  std::string problem_;
  int refusals_ = 0;
};

}  // namespace rocmforge
