#include "device/device.h"

#include <fmt/format.h>
#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "device/uploader.h"

namespace rocmforge {
namespace {

/// Larger copies are split: runtimes have failed on copies of hundreds of megabytes that start far inside an allocation.
constexpr std::size_t largest_copy_bytes = std::size_t{256} << 20;

std::string size_text(std::size_t size_bytes) {
  const auto bytes = static_cast<double>(size_bytes);
  if (size_bytes < (std::size_t{1} << 20)) {
    return fmt::format("{} bytes", size_bytes);
  }
  return size_bytes < (std::size_t{1} << 30) ? fmt::format("{:.2f} MiB", bytes / (1 << 20))
                                             : fmt::format("{:.2f} GiB", bytes / (1 << 30));
}

double gib(std::int64_t size_bytes) { return static_cast<double>(size_bytes) / (1 << 30); }

/// Anonymous, zeroed memory, in huge pages where the system supports them. Null on failure, with errno set.
std::byte* map_memory(std::size_t size_bytes) {
  void* memory = ::mmap(nullptr, size_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) {
    return nullptr;
  }
#ifdef MADV_HUGEPAGE
  ::madvise(memory, size_bytes, MADV_HUGEPAGE);  // a hint: systems without huge pages refuse it, which costs only speed
#endif
  return static_cast<std::byte*>(memory);
}

}  // namespace

template <BufferKind kind>
Buffer<kind>::Buffer(Device& device, std::byte* data, std::size_t size_bytes)
    : device_(&device), data_(data), size_bytes_(size_bytes) {
  device.count_allocated(kind, size_bytes);
}

template <BufferKind kind>
Buffer<kind>::~Buffer() {
  if (data_ != nullptr) {
    device_->release(kind, data_, size_bytes_);
  }
}

template <BufferKind kind>
Buffer<kind>::Buffer(Buffer&& other) noexcept
    : device_(std::exchange(other.device_, nullptr)),
      data_(std::exchange(other.data_, nullptr)),
      size_bytes_(std::exchange(other.size_bytes_, 0)) {}

template <BufferKind kind>
Buffer<kind>& Buffer<kind>::operator=(Buffer&& other) noexcept {
  Buffer moved(std::move(other));
  std::swap(device_, moved.device_);
  std::swap(data_, moved.data_);
  std::swap(size_bytes_, moved.size_bytes_);
  return *this;
}

template class Buffer<BufferKind::device>;
template class Buffer<BufferKind::pinned>;

Device::Device(CpuIsa isa_limit) : info_(cpu_device_info(isa_limit)) {}

Device::Device(std::unique_ptr<Driver> driver, const KernelLibrary& kernels)
    : kernels_(kernels), driver_(std::move(driver)) {
  check(driver_ != nullptr, "a GPU needs a driver");
  info_ = driver_->info();
  const std::string architecture = kernels.architecture_for(info_);
  if (architecture.empty()) {
    const std::vector<std::string> available = kernels.architectures();
    throw Error(fmt::format(
        "there are no kernels for {} ({}){}", info_.name, info_.architecture,
        available.empty() ? ", nor for any other GPU" : fmt::format(", only for {}", fmt::join(available, ", "))));
  }
  // All modules are loaded at once, so that an object that the device refuses is an error at start and not in a later step.
  try {
    load_modules(architecture);
    stream_ = std::make_unique<Stream>(*this);
    uploader_ = std::make_unique<Uploader>(*this);
  } catch (...) {
    unload();
    throw;
  }
}

Device::~Device() { unload(); }

void Device::load_modules(const std::string& architecture) {
  for (const auto& [name, code_object] : kernels_.objects(architecture)) {
    try {
      modules_.emplace(name, driver_->load_module(code_object, architecture + "/" + name));
    } catch (Error& error) {
      if (!architecture.ends_with("-generic")) {
        throw;
      }
      // Older runtimes do not support code objects for a whole generation.
      throw Error(fmt::format("{}; the runtime may be too old for kernels of a whole generation: {}", error.what(),
                              how_to_compile_kernels(info_)));
    }
  }
}

void Device::unload() noexcept {
  uploader_.reset();
  stream_.reset();
  kept_.clear();
  for (const auto& [name, module] : modules_) {
    driver_->unload_module(module);
  }
  modules_.clear();
}

DeviceBuffer Device::allocate(std::size_t size_bytes, std::string_view purpose) {
  if (size_bytes == 0) {
    return {};
  }
  const auto refusal = [&](std::string_view why) {
    return Error(fmt::format("cannot allocate {} for {}: {}", size_text(size_bytes), purpose, why));
  };
  if (!is_gpu()) {
    std::byte* data = map_memory(size_bytes);
    if (data == nullptr) {
      throw refusal(std::strerror(errno));
    }
    return {*this, data, size_bytes};
  }
  const Driver::Memory memory = driver_->memory();
  const std::string left =
      fmt::format("{:.2f} of {:.2f} GiB are free on {}", gib(memory.free_bytes), gib(memory.total_bytes), info_.name);
  if (static_cast<std::int64_t>(size_bytes) > memory.free_bytes) {
    throw refusal(left);
  }
  void* address = nullptr;
  try {
    address = driver_->allocate(size_bytes);
  } catch (const Error& error) {
    throw refusal(fmt::format("{} ({})", left, error.what()));
  }
  DeviceBuffer buffer(*this, static_cast<std::byte*>(address), size_bytes);
  stream_->fill(address, 0, size_bytes);
  stream_->synchronize();  // other streams may use the memory too
  return buffer;
}

PinnedBuffer Device::allocate_pinned(std::size_t size_bytes) {
  if (size_bytes == 0) {
    return {};
  }
  if (is_gpu()) {
    std::byte* data = nullptr;
    try {
      data = static_cast<std::byte*>(driver_->allocate_pinned(size_bytes));
    } catch (const Error& error) {
      throw Error(fmt::format("cannot allocate {} of pinned host memory: {}", size_text(size_bytes), error.what()));
    }
    std::memset(data, 0, size_bytes);
    return {*this, data, size_bytes};
  }
  std::byte* data = map_memory(size_bytes);
  if (data == nullptr) {
    throw Error(fmt::format("cannot allocate {} of host memory: {}", size_text(size_bytes), std::strerror(errno)));
  }
  return {*this, data, size_bytes};
}

std::optional<Driver::Memory> Device::memory() { return is_gpu() ? std::optional(driver_->memory()) : std::nullopt; }

void Device::upload(void* to, const void* from, std::size_t size_bytes, ThreadPool* pool) {
  if (size_bytes == 0) {
    return;
  }
  if (is_gpu()) {
    uploader_->copy(static_cast<std::byte*>(to), static_cast<const std::byte*>(from), size_bytes, pool);
  } else {
    std::memcpy(to, from, size_bytes);
  }
}

void Device::finish_uploads() {
  if (is_gpu()) {
    uploader_->finish();
  }
}

void Device::download(void* to, const void* from, std::size_t size_bytes) {
  if (!is_gpu()) {
    if (size_bytes > 0) {
      std::memcpy(to, from, size_bytes);
    }
    return;
  }
  for (std::size_t done = 0; done < size_bytes; done += largest_copy_bytes) {
    stream_->copy_to_host(static_cast<std::byte*>(to) + done, static_cast<const std::byte*>(from) + done,
                          std::min(largest_copy_bytes, size_bytes - done));
  }
  stream_->synchronize();
}

std::string Device::kernels_hash() const {
  return is_gpu() ? kernels_.hash_of_objects(kernels_.architecture_for(info_)) : std::string();
}

FunctionHandle Device::function(std::string_view object, std::string_view kernel) {
  if (const auto found = functions_.find({object, kernel}); found != functions_.end()) {
    return found->second->handle;
  }
  check(is_gpu(), "the CPU has no code objects");
  const auto module = modules_.find(object);
  if (module == modules_.end()) {
    std::vector<std::string_view> names;
    for (const auto& [name, handle] : modules_) {
      names.push_back(name);
    }
    throw Error(fmt::format("kernel {}: there is no code object {} for {}, only {}", kernel, object, info_.architecture,
                            fmt::join(names, ", ")));
  }
  auto function = std::make_unique<Function>(Function{std::string(object), std::string(kernel), {}});
  function->handle = driver_->find_function(module->second, function->kernel);
  if (function->handle.value == nullptr) {
    throw Error(fmt::format("the code object {} for {} has no kernel {}", object, info_.architecture, kernel));
  }
  const Names names{function->object, function->kernel};
  return functions_.emplace(names, std::move(function)).first->second->handle;
}

FunctionInfo Device::function_info(std::string_view object, std::string_view kernel) {
  return driver_->function_info(function(object, kernel));
}

void Device::release(BufferKind kind, std::byte* data, std::size_t size_bytes) noexcept {
  allocated_bytes_.fetch_sub(kind == BufferKind::device ? size_bytes : 0, std::memory_order_relaxed);
  if (!is_gpu()) {
    ::munmap(data, size_bytes);
  } else if (kind == BufferKind::pinned) {
    driver_->free_pinned(data);
  } else {
    put_held();  // it may use the memory
    driver_->free(data);
  }
}

void Device::put_held() noexcept {
  try {
    if (stream_ != nullptr) {
      stream_->put_held();
    }
  } catch (...) {  // whoever waits for the stream next learns that the device has failed
  }
}

}  // namespace rocmforge
