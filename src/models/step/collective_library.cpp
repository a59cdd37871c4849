#include "models/step/collective_library.h"

#include <array>
#include <cstdlib>

namespace rocmforge {
namespace {

constexpr std::array nccl_names{"libnccl.so.2"};
constexpr std::array rccl_names{"librccl.so.1"};

/// Sums inside of NVLink's switches have no order that is the same each time.
RuntimeLibrary open_without_multicast(std::span<const char* const> names) {
  ::setenv("NCCL_NVLS_ENABLE", "0", 0);
  return RuntimeLibrary(names);
}

}  // namespace

std::span<const char* const> CollectiveLibrary::names_of(DeviceKind kind) {
  return kind == DeviceKind::hip ? std::span<const char* const>(rccl_names) : std::span<const char* const>(nccl_names);
}

CollectiveLibrary::CollectiveLibrary(std::span<const char* const> names)
    : library(open_without_multicast(names)),
      get_version(library, "ncclGetVersion"),
      error_string(library, "ncclGetErrorString"),
      comm_init_all(library, "ncclCommInitAll"),
      comm_abort(library, "ncclCommAbort"),
      all_reduce(library, "ncclAllReduce") {
  constexpr int least_version = 2000;  // before 2.9 a version is 1000 * major + 100 * minor
  int version = 0;
  call(*this, get_version, &version);
  if (version < least_version) {
    throw Error(fmt::format("{}: version {} is too old, 2 is needed", library.path(), version));
  }
}

std::string CollectiveLibrary::describe(int code) const {
  const char* const text = error_string(code);
  return fmt::format("{} of {}", text == nullptr ? fmt::format("error {}", code) : std::string(text), library.path());
}

CollectiveRanks::CollectiveRanks(std::span<Device* const> devices, std::span<const char* const> names)
    : library_(names), ranks_(devices.size()) {
  std::vector<int> numbers;
  for (const Device* const device : devices) {
    numbers.push_back(device->info().index);
  }
  call(library_, library_.comm_init_all, ranks_.data(), static_cast<int>(ranks_.size()),
       static_cast<const int*>(numbers.data()));
}

CollectiveRanks::~CollectiveRanks() {
  for (const CollectiveLibrary::Handle rank : ranks_) {
    library_.comm_abort(rank);
  }
}

void CollectiveRanks::sum(std::int32_t rank, const float* part, float* out, std::int64_t count, Stream& stream) const {
  stream.device().driver().with_device([&] {
    call(library_, library_.all_reduce, static_cast<const void*>(part), static_cast<void*>(out),
         static_cast<std::size_t>(count), CollectiveLibrary::float32, CollectiveLibrary::sum,
         ranks_[static_cast<std::size_t>(rank)], stream.handle().value);
  });
}

}  // namespace rocmforge
