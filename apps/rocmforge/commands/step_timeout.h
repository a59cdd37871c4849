#pragma once

#include <string>

namespace rocmforge::app {

/// The exit code for a step that does not end in its time.
inline constexpr int exit_step_timeout = 3;

/// The exit code after a GPU's memory fault.
inline constexpr int exit_device_fault = 4;

/// Prints the line and ends the program: a DeviceFaultHandler.
void end_after_fault(const std::string& line);

/// Prints the line and ends the program at once: the device, and with it every destructor, may wait for ever.
[[noreturn]] void end_after_timeout(const std::string& line);

}  // namespace rocmforge::app
