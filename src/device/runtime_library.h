#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "base/error.h"
#include "device/driver.h"

namespace rocmforge {

/// A vendor's runtime, opened while the program runs. It is never closed, because runtimes start threads and register exit
/// handlers of the process, which outlive every object of this program.
class RuntimeLibrary {
 public:
  /// Who finds its symbols: only who asks for them here, or every library that is loaded later.
  enum class Symbols { own, of_process };

  /// Opens the first of `names` that can be opened. Throws Error with the loader's reason when none can.
  explicit RuntimeLibrary(std::span<const char* const> names, Symbols symbols = Symbols::own);

  /// Null when the library lacks the symbol.
  [[nodiscard]] void* find(const char* symbol) const;
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  void* handle_ = nullptr;
  std::string path_;
};

enum class Presence { required, optional };

/// A function of a runtime by its exported name. Runtimes return an enum of the size of int, with 0 for success.
template <class Signature>
class Entry;

template <class Result, class... Parameters>
class Entry<Result(Parameters...)> {
 public:
  /// Throws Error when a required function is missing.
  Entry(const RuntimeLibrary& library, const char* name, Presence presence = Presence::required)
      : name_(name), function_(reinterpret_cast<Result (*)(Parameters...)>(library.find(name))) {
    if (function_ == nullptr && presence == Presence::required) {
      throw Error(fmt::format("{} has no function {}: it is too old", library.path(), name));
    }
  }

  Result operator()(Parameters... arguments) const { return function_(arguments...); }
  [[nodiscard]] explicit operator bool() const { return function_ != nullptr; }
  [[nodiscard]] const char* name() const { return name_; }

 private:
  const char* name_;
  Result (*function_)(Parameters...);
};

/// Calls a runtime's function. On failure throws Error: "cuMemAlloc_v2: CUDA_ERROR_OUT_OF_MEMORY (out of memory)".
/// `api.describe(code)` provides the text.
template <class Api, class... Parameters, class... Arguments>
void call(const Api& api, const Entry<int(Parameters...)>& entry, Arguments... arguments) {
  if (const int code = entry(arguments...); code != 0) [[unlikely]] {
    throw Error(fmt::format("{}: {}", entry.name(), api.describe(code)));
  }
}

/// A kernel of a loaded module, with the limits that a launch is checked against.
struct LoadedFunction {
  void* handle = nullptr;
  void* module = nullptr;
  FunctionInfo info;
  std::size_t argument_bytes = 0;   ///< size of its only parameter, 0 when unknown
  std::int64_t dynamic_bytes = -1;  ///< dynamic shared memory set in the runtime, -1: none
};

/// Throws Error for a launch that the hardware can't do. Runtimes report some of these errors without the reason, and others
/// not at all.
void check_launch(const LoadedFunction& function, const DeviceInfo& device, const LaunchShape& shape,
                  std::size_t argument_bytes);

}  // namespace rocmforge
