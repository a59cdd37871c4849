#pragma once

#include <chrono>

namespace rocmforge {

/// The sizes of a step's work.
struct StepWork {
  double parameters = 0.0;     ///< of the model
  double tokens = 0.0;         ///< computed in the step
  double pairs = 0.0;          ///< of a query and a position that it sees, in one layer
  double width = 0.0;          ///< layers times the elements of a hidden state
  double image_flops = 0.0;    ///< of its images' encoding
  double bytes_to_read = 0.0;  ///< that may have to come from a disk
  bool on_gpu = false;         ///< all of it
};

/// A bound of a step's time, for a device that is far slower than any that is used: 30 s, and the time of its products at 1
/// GFLOP/s on a CPU, 100 on a GPU, and of its reads at 20 MB/s.
std::chrono::milliseconds step_time_bound(const StepWork& work);

}  // namespace rocmforge
