#include "gpu_fixture.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <stdexcept>

namespace rocmforge {
namespace {

/// Waits until no other program's tests hold the GPU. A program that the holder starts (for a death test) shares its lock.
class GpuLock {
 public:
  GpuLock() {
    constexpr const char* held = "ROCMFORGE_GPU_TESTS_LOCKED";
    if (std::getenv(held) != nullptr) {
      return;
    }
    const std::string path = (std::filesystem::temp_directory_path() / "rocmforge-gpu-tests.lock").string();
    file_ = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (file_ < 0 || ::flock(file_, LOCK_EX) != 0) {
      throw std::runtime_error("cannot lock " + path);
    }
    ::setenv(held, "1", 1);
  }
  ~GpuLock() {
    if (file_ >= 0) {
      ::close(file_);
    }
  }
  GpuLock(const GpuLock&) = delete;
  GpuLock& operator=(const GpuLock&) = delete;

 private:
  int file_ = -1;
};

/// The one device of this program, or why there is none.
struct SharedGpu {
  std::unique_ptr<GpuLock> lock;
  std::unique_ptr<Device> device;
  std::string missing;

  SharedGpu() {
    std::vector<RuntimeReport> reports = find_runtimes();
    for (const RuntimeReport& report : reports) {
      missing += (missing.empty() ? "" : "; ") + std::string(name(report.kind)) + ": " + report.problem;
      if (!report.devices.empty()) {
        missing.clear();
        break;
      }
    }
    if (!missing.empty()) {
      missing = "no GPU: " + missing;
      return;
    }
    const KernelLibrary library = kernel_library_for_tests();
    if (library.architectures().empty()) {
      missing = "no GPU kernels: none are built in, and ROCMFORGE_KERNEL_DIR names no folder";
      return;
    }
    lock = std::make_unique<GpuLock>();
    device = open_device("auto", library);
    if (!device->is_gpu()) {
      device.reset();
      missing = "no kernels for this machine's GPU";
    }
  }
};

SharedGpu& shared_gpu() {
  static SharedGpu gpu;
  return gpu;
}

}  // namespace

KernelLibrary kernel_library_for_tests() {
  const char* folder = std::getenv("ROCMFORGE_KERNEL_DIR");
  return folder != nullptr && *folder != '\0' ? KernelLibrary::from_folder(folder) : KernelLibrary::embedded();
}

void GpuTest::SetUp() {
  if (!shared_gpu().device) {
    GTEST_SKIP() << shared_gpu().missing;
  }
}

Device& GpuTest::device() { return *shared_gpu().device; }

}  // namespace rocmforge
