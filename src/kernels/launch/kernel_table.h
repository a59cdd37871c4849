#pragma once

#include <array>
#include <cstddef>

#include "base/error.h"
#include "device/device.h"

namespace rocmforge {

/// A kernel, and the form that it is compiled for: types, sizes, tokens of a tile.
template <class Form, class Args>
struct FormKernel {
  Form form;
  Kernel<Args> kernel;
};

/// The kernel of exactly this form; check()s that the table has one. A table, an array of FormKernel, takes the place of
/// names that would be made for each call.
template <class Table, class Form>
constexpr const auto& kernel_of(const Table& table, const Form& form) {
  for (const auto& entry : table) {
    if (entry.form == form) {
      return entry.kernel;
    }
  }
  fail_check("no kernel of this form");
}

/// A table by the number of tokens that a tile has.
template <class Args, std::size_t count>
using TokenKernels = std::array<FormKernel<int, Args>, count>;

}  // namespace rocmforge
