#pragma once

#include <memory>
#include <string>
#include <vector>

#include "device/driver.h"

namespace rocmforge {

/// An emulated AMD GPU: AMD code objects run on tinygrad's emulator of the instruction sets, in a worker process
/// (tools/cost/amd_emulator.py). Only for tests: emulated work takes seconds where a GPU takes microseconds.
///
/// `architecture` is one that the worker knows, such as "gfx1100", "gfx1201" or "gfx942". The environment's TINYGRAD names a
/// checkout of tinygrad. Everything is done when a call returns. Except for alignment, each allocation ends at the end of a
/// page, and the next page is not mapped. A kernel that accesses memory outside of allocations ends with an error that names
/// the address. Throws Error when the emulator isn't there, with the reason.
std::unique_ptr<Driver> open_emulated_driver(std::string architecture);

/// Several of them, whose kernels can access the memory of all. Each may be used by a thread of its own.
std::vector<std::unique_ptr<Driver>> open_emulated_drivers(const std::string& architecture, std::size_t count);

}  // namespace rocmforge
