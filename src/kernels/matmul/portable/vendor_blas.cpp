#include "kernels/matmul/portable/vendor_blas.h"

#include <fmt/format.h>

#include <cstring>
#include <vector>

#include "base/half.h"
#include "base/log.h"

namespace rocmforge {
namespace {

/// The number of refused products after which the library is no longer used: each one costs a line of the log and a search.
constexpr int most_refusals = 8;

constexpr std::int64_t trial_rows = 32;
constexpr std::int64_t trial_tokens = 24;
constexpr std::int64_t trial_k = 64;

// Small integers: every sum is exact in whichever order it is added up.
int trial_weight(std::int64_t row, std::int64_t column) { return static_cast<int>((row * 7 + column * 3) % 9) - 4; }
int trial_x(std::int64_t token, std::int64_t column) { return static_cast<int>((token * 5 + column) % 7) - 3; }
int trial_before(std::int64_t token, std::int64_t row) { return static_cast<int>((token + row) % 5); }

template <class Element, class Value>
std::vector<Element> matrix(std::int64_t rows, std::int64_t columns, Value&& value) {
  std::vector<Element> elements;
  for (std::int64_t row = 0; row < rows; ++row) {
    for (std::int64_t column = 0; column < columns; ++column) {
      elements.emplace_back(static_cast<float>(value(row, column)));
    }
  }
  return elements;
}

/// The operands of a trial in the device's memory.
struct Trial {
  template <class Element>
  Trial(Device& device, Element)
      : weight(upload(device, matrix<Element>(trial_rows, trial_k, trial_weight))),
        x(upload(device, matrix<Element>(trial_tokens, trial_k, trial_x))),
        out(upload(device, matrix<float>(trial_tokens, trial_rows, trial_before))),
        workspace(device.allocate(blas_workspace_bytes, "trying the vendor's matrix library")) {}

  template <class Element>
  static DeviceBuffer upload(Device& device, const std::vector<Element>& elements) {
    DeviceBuffer buffer = device.allocate(elements.size() * sizeof(Element), "trying the vendor's matrix library");
    device.upload(buffer.data(), elements.data(), buffer.size_bytes());
    return buffer;
  }

  DeviceBuffer weight, x, out, workspace;
};

/// Adds a product to what is in `out` and compares. Throws Error when it fails or is wrong.
void try_product(Device& device, BlasProducts& products, bool bfloat) {
  const Trial trial = bfloat ? Trial(device, bfloat16()) : Trial(device, half());
  const BlasProduct product{.bfloat = bfloat,
                            .weight = trial.weight.data(),
                            .x = trial.x.data(),
                            .out = trial.out.as<float>(),
                            .rows = trial_rows,
                            .tokens = trial_tokens,
                            .k = trial_k,
                            .x_stride = trial_k,
                            .out_stride = trial_rows,
                            .accumulate = true};
  products.multiply(*products.prepare(product), product, trial.workspace.data(), device.stream().handle());
  std::vector<float> out(static_cast<std::size_t>(trial_tokens * trial_rows));
  device.download(out.data(), trial.out.data(), out.size() * sizeof(float));
  for (std::int64_t token = 0; token < trial_tokens; ++token) {
    for (std::int64_t row = 0; row < trial_rows; ++row) {
      int expected = trial_before(token, row);
      for (std::int64_t column = 0; column < trial_k; ++column) {
        expected += trial_weight(row, column) * trial_x(token, column);
      }
      const float actual = out[static_cast<std::size_t>(token * trial_rows + row)];
      if (actual != static_cast<float>(expected)) {
        throw Error(fmt::format("element {}, {} is {}, not {}", token, row, actual, expected));
      }
    }
  }
}

}  // namespace

VendorBlas& VendorBlas::of(Device& device, std::span<const std::string> libraries) {
  return device.kept<VendorBlas>([&] { return std::make_unique<VendorBlas>(device, libraries); });
}

VendorBlas::VendorBlas(Device& device, std::span<const std::string> libraries) {
  try {
    std::vector<const char*> names;
    for (const std::string& name : libraries) {
      names.push_back(name.c_str());
    }
    const auto api = std::make_shared<const BlasApi>(blas_names(device.info().kind), names);
    products_ = std::make_unique<BlasProducts>(api, device.driver());
    for (const bool bfloat : {false, true}) {
      with_context(fmt::format("{}: a small product of {} weights", api->library.path(), bfloat ? "BF16" : "F16"),
                   [&] { try_product(device, *products_, bfloat); });
    }
  } catch (const Error& error) {
    problem_ = error.what();
    products_.reset();
  }
}

void VendorBlas::refused(const Error& error) {
  log_warning("{}; the portable kernel takes this product", error.what());
  if (++refusals_ == most_refusals) {
    problem_ = fmt::format("it has refused {} products, the last one: {}", refusals_, error.what());
    log_warning("the vendor's matrix library is used no longer: {}", problem_);
  }
}

const BlasProducts::DescriptorSet* VendorBlas::prepare(const BlasProduct& product) {
  try {
    return problem_.empty() ? products_->prepare(product) : nullptr;
  } catch (const Error& error) {
    refused(error);
    return nullptr;
  }
}

bool VendorBlas::multiply(const BlasProducts::DescriptorSet& descriptors, const BlasProduct& product, void* workspace,
                          StreamHandle stream) {
  try {
    products_->multiply(descriptors, product, workspace, stream);
    return true;
  } catch (const Error& error) {
    refused(error);
    return false;
  }
}

}  // namespace rocmforge
