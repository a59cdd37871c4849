#include "device/runtime_library.h"

#include <dlfcn.h>
#include <link.h>

#include <vector>

namespace rocmforge {

RuntimeLibrary::RuntimeLibrary(std::span<const char* const> names, Symbols symbols) {
  std::string absent;  // the loader's message for a missing file, which is the same for each name
  std::string broken;  // its message for a file that exists but can't be loaded
  for (const char* name : names) {
    handle_ = ::dlopen(name, RTLD_NOW | (symbols == Symbols::own ? RTLD_LOCAL : RTLD_GLOBAL));
    if (handle_ != nullptr) {
      link_map* map = nullptr;
      path_ = ::dlinfo(handle_, RTLD_DI_LINKMAP, &map) == 0 && map->l_name[0] != '\0' ? map->l_name : name;
      return;
    }
    const char* reason = ::dlerror();
    const std::string_view text = reason != nullptr ? reason : "cannot be opened";
    const std::string missing = fmt::format("{}: cannot open shared object file: No such file", name);
    (text.starts_with(missing) ? absent : broken) = text;
  }
  if (!broken.empty()) {
    throw Error(broken);
  }
  throw Error(names.size() == 1
                  ? absent
                  : fmt::format("{}: cannot open shared object file: none of these exists", fmt::join(names, ", ")));
}

void* RuntimeLibrary::find(const char* symbol) const { return ::dlsym(handle_, symbol); }

void check_launch(const LoadedFunction& function, const DeviceInfo& device, const LaunchShape& shape,
                  std::size_t argument_bytes) {
  const std::uint64_t threads = std::uint64_t{shape.block[0]} * shape.block[1] * shape.block[2];
  if (function.info.max_threads > 0 && threads > static_cast<std::uint64_t>(function.info.max_threads)) [[unlikely]] {
    throw Error(fmt::format("{} threads in a work-group, the kernel takes at most {}", threads, function.info.max_threads));
  }
  const std::int64_t fixed = function.info.static_shared_bytes > 0 ? function.info.static_shared_bytes : 0;
  if (fixed + shape.shared_bytes > device.shared_memory_bytes) [[unlikely]] {
    throw Error(fmt::format("{} bytes of shared memory ({} of them static), {} has {} for a work-group",
                            fixed + shape.shared_bytes, fixed, device.name, device.shared_memory_bytes));
  }
  if (function.argument_bytes != 0 && function.argument_bytes != argument_bytes) [[unlikely]] {
    throw Error(fmt::format("{} bytes of arguments, the code object expects {}", argument_bytes, function.argument_bytes));
  }
}

}  // namespace rocmforge
