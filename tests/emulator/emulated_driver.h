#pragma once

#include <memory>
#include <string>

#include "device/driver.h"

namespace rocmforge {

/// An AMD GPU that isn't there: AMD code objects run on tinygrad's emulator of the instruction sets, in a worker process
/// (tools/amd_emulator.py). For tests, as emulated work takes seconds where a GPU takes microseconds.
///
/// `architecture` is one that the worker knows, such as "gfx1100", "gfx1201" or "gfx942". The environment's TINYGRAD names a
/// checkout of tinygrad. Everything is done when a call returns. Each allocation ends, but for alignment, where the page
/// ends, and nothing lies behind it: a kernel that touches memory of no allocation ends with an error that names the
/// address. Throws Error when the emulator isn't there, with the reason.
std::unique_ptr<Driver> open_emulated_driver(std::string architecture);

}  // namespace rocmforge
