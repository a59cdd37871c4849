#pragma once

#include <memory>
#include <span>
#include <string>

#include "device/device.h"
#include "kernels/gpu/blas_products.h"

namespace rocmforge {

/// The vendor's matrix library on one device, for as long as the device is open. It is opened and tried with small products
/// once; where that fails it serves no product, and `problem` says why. A later product that it refuses is logged
/// and left to the caller; after a few of them the library is left alone.
class VendorBlas {
 public:
  /// The one of this device. `libraries` are the files to try where it is asked for first.
  static VendorBlas& of(Device& device, std::span<const std::string> libraries);

  VendorBlas(Device& device, std::span<const std::string> libraries);

  /// Why the library multiplies nothing, empty while it does.
  [[nodiscard]] const std::string& problem() const { return problem_; }

  /// How the library multiplies this, or null when it can't. Valid until the next call.
  const BlasProducts::DescriptorSet* prepare(const BlasProduct& product);
  /// Puts the product on the stream. False when the library refuses it: nothing was put there then.
  bool multiply(const BlasProducts::DescriptorSet& descriptors, const BlasProduct& product, void* workspace,
                StreamHandle stream);

 private:
  void refused(const Error& error);

  std::unique_ptr<BlasProducts> products_;  ///< null where the library cannot be opened
  std::string problem_;
  int refusals_ = 0;
};

}  // namespace rocmforge
