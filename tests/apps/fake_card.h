#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "apps/program.h"
#include "paths.h"

namespace rocmforge {

/// For a run of the program: AMD's card gfx1100 of a fake HIP runtime (tests/device/fake_hip_runtime.cpp), whose kernels do
/// nothing, and files that take the place of its code objects. `kind`: "runtime", or "faulting", whose memory faults in a
/// model's first step.
class FakeCard {
 public:
  explicit FakeCard(const std::string& kind) {
    std::filesystem::create_directories(folder_.path() / "lib");
    std::filesystem::create_directories(folder_.path() / "gfx1100");
    std::filesystem::create_symlink(test::build_path("tests/librocmforge_fake_hip_" + kind + ".so"),
                                    folder_.path() / "lib/libamdhip64.so");
    for (const auto& entry : std::filesystem::recursive_directory_iterator(test::source_path("src/kernels"))) {
      if (entry.path().extension() == ".hip") {
        static_cast<void>(folder_.write("gfx1100/" + entry.path().stem().string() + ".hsaco",
                                        "\x7f"
                                        "ELF code"));
      }
    }
  }
  [[nodiscard]] std::vector<std::string> environment() const {
    // A program that ends by a fault of the GPU ends while its threads run.
    return {"ROCM_PATH=" + folder_.path().string(), "ROCMFORGE_DEVICE=hip:0", "XDG_STATE_HOME=" + folder_.path().string(),
            "TSAN_OPTIONS=report_thread_leaks=0"};
  }
  /// `arguments` with the folder of the code objects behind them.
  [[nodiscard]] std::vector<std::string> with_kernels(std::vector<std::string> arguments) const {
    arguments.insert(arguments.end(), {"--kernel-dir", folder_.path().string()});
    return arguments;
  }

 private:
  TemporaryFolder folder_;
};

}  // namespace rocmforge
