#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "device/device_info.h"
#include "device/tensor_map.h"

namespace rocmforge {

/// The number of operations since the driver was opened. An operation counts when it is put on a stream, even if it is only
/// recorded. The replay of a graph counts as one graph launch.
struct DriverCounters {
  std::int64_t copies_to_device = 0;
  std::int64_t bytes_to_device = 0;
  std::int64_t copies_to_host = 0;
  std::int64_t bytes_to_host = 0;
  std::int64_t copies_on_device = 0;
  std::int64_t fills = 0;
  std::int64_t launches = 0;
  std::int64_t graph_launches = 0;
  std::int64_t synchronizations = 0;  ///< waits of the host for a stream or an event
  std::int64_t allocations = 0;

  friend DriverCounters operator-(const DriverCounters& after, const DriverCounters& before);
  friend bool operator==(const DriverCounters&, const DriverCounters&) = default;
};

struct LaunchShape {
  std::array<std::uint32_t, 3> grid{1, 1, 1};   ///< work-groups
  std::array<std::uint32_t, 3> block{1, 1, 1};  ///< threads of a work-group
  std::uint32_t shared_bytes = 0;               ///< dynamic LDS of a work-group
  /// The kernel may start while its predecessor on the stream still runs, and itself waits for the predecessor's end
  /// (launch_order.h). Runtimes that do not support this start the kernel in order.
  bool dependent = false;
  /// Every work-group of this dependent kernel waits for the predecessor before it lets the successor start: when the
  /// successor starts, everything before the predecessor has ended.
  bool waits_first = false;
  /// The number of neighbours along x in a cluster, which run at the same time and can access each other's shared memory
  /// (NVIDIA, from compute capability 9.0 on). A divisor of grid[0], at most 8.
  std::uint32_t cluster = 1;

  friend bool operator==(const LaunchShape&, const LaunchShape&) = default;
};

/// "grid 8x1x1, block 256x1x1, 1024 bytes of dynamic shared memory"
std::string to_string(const LaunchShape& shape);

/// Registers and memory of a kernel as the runtime reports them; -1 when it does not.
struct FunctionInfo {
  int registers = -1;
  int static_shared_bytes = -1;
  int scratch_bytes = -1;
  int max_threads = -1;
};

// Handles of a runtime's objects; null means none.
struct StreamHandle {
  void* value = nullptr;
};
struct EventHandle {
  void* value = nullptr;
};
struct GraphHandle {
  void* value = nullptr;
};
struct ModuleHandle {
  void* value = nullptr;
};
struct FunctionHandle {
  void* value = nullptr;
};

/// A 4-dimensional tensor of 16-bit elements in device memory, and the box of it that one bulk copy moves, for GPUs whose
/// copy engine reads such a description (Hopper's TMA). The innermost dimension comes first. In shared memory a box is
/// stored in rows of its innermost dimension with 128-byte swizzle; elements outside the tensor become zero.
struct TensorBoxes {
  const void* address = nullptr;                ///< 16-byte aligned
  std::array<std::uint64_t, 4> size{};          ///< elements
  std::array<std::uint64_t, 3> stride_bytes{};  ///< of dimensions 1 to 3, multiples of 16
  std::array<std::uint32_t, 4> box{};           ///< elements; the first times 2 bytes is at most 128
  bool streamed = false;  ///< each box is read once: the L2 cache does not fetch whole 256 bytes around it
};

/// One GPU through one runtime: the HIP runtime or the CUDA driver, opened when the program runs, or an emulator in tests.
/// Every call throws Error with the runtime's message when it fails. Any thread may call it, one at a time. The public
/// functions count operations; the virtual functions do them.
class Driver {
 public:
  virtual ~Driver() = default;
  Driver(const Driver&) = delete;
  Driver& operator=(const Driver&) = delete;

  [[nodiscard]] virtual const DeviceInfo& info() const = 0;
  [[nodiscard]] virtual std::string runtime() const = 0;  ///< "CUDA driver 13.0", "HIP 6.2.41"
  [[nodiscard]] const DriverCounters& counters() const { return counters_; }
  /// The files to try as a vendor's library that is called one of `names` and belongs to this runtime.
  [[nodiscard]] virtual std::vector<std::string> libraries_called(std::span<const char* const> names) const {
    return {names.begin(), names.end()};
  }

  struct Memory {
    std::int64_t free_bytes = 0;
    std::int64_t total_bytes = 0;
  };
  [[nodiscard]] virtual Memory memory() = 0;

  /// Calls `act` while this device is current on the calling thread, as the vendor's libraries require.
  virtual void with_device(const std::function<void()>& act) { act(); }

  /// Device memory, at least 256-byte aligned. Throws Error when there is not enough.
  void* allocate(std::size_t size_bytes);
  virtual void free(void* address) noexcept = 0;
  /// Host memory from and to which the device can copy without waiting.
  virtual void* allocate_pinned(std::size_t size_bytes) = 0;
  virtual void free_pinned(void* address) noexcept = 0;

  // Operations in stream order. A copy from or to host memory that is not pinned may wait for the stream.
  void copy_to_device(void* to, const void* from, std::size_t size_bytes, StreamHandle stream);
  void copy_to_host(void* to, const void* from, std::size_t size_bytes, StreamHandle stream);
  void copy_on_device(void* to, const void* from, std::size_t size_bytes, StreamHandle stream);
  void fill(void* to, std::uint8_t value, std::size_t size_bytes, StreamHandle stream);

  virtual StreamHandle create_stream() = 0;  ///< not ordered with the default stream
  virtual void destroy_stream(StreamHandle stream) noexcept = 0;
  void synchronize(StreamHandle stream);

  virtual EventHandle create_event() = 0;
  virtual void destroy_event(EventHandle event) noexcept = 0;
  virtual void record(EventHandle event, StreamHandle stream) = 0;
  void synchronize(EventHandle event);
  virtual bool finished(EventHandle event) = 0;
  virtual void wait(StreamHandle stream, EventHandle event) = 0;  ///< the stream waits, the host does not
  virtual double elapsed_seconds(EventHandle from, EventHandle to) = 0;

  /// From begin_capture to end_capture, work that is put on the stream is recorded and not run.
  virtual void begin_capture(StreamHandle stream) = 0;
  virtual GraphHandle end_capture(StreamHandle stream) = 0;
  void launch(GraphHandle graph, StreamHandle stream);
  virtual void destroy_graph(GraphHandle graph) noexcept = 0;

  virtual ModuleHandle load_module(std::span<const std::byte> code_object, std::string_view label) = 0;
  virtual void unload_module(ModuleHandle module) noexcept = 0;
  /// An empty handle when the module has no such kernel.
  virtual FunctionHandle find_function(ModuleHandle module, const std::string& kernel) = 0;
  virtual FunctionInfo function_info(FunctionHandle function) = 0;
  /// Throws Error when the runtime has no bulk tensor copies.
  [[nodiscard]] virtual TensorMap tensor_map(const TensorBoxes& boxes);
  /// `args` is the kernel's only parameter, passed by value. An error message begins with `kernel` and the shape. The
  /// message of an error at a later synchronization ends with those of the last launch.
  void launch(FunctionHandle function, std::string_view kernel, const LaunchShape& shape, std::span<const std::byte> args,
              StreamHandle stream);

 protected:
  Driver() = default;

 private:
  virtual void* do_allocate(std::size_t size_bytes) = 0;
  virtual void do_copy_to_device(void* to, const void* from, std::size_t size_bytes, StreamHandle stream) = 0;
  virtual void do_copy_to_host(void* to, const void* from, std::size_t size_bytes, StreamHandle stream) = 0;
  virtual void do_copy_on_device(void* to, const void* from, std::size_t size_bytes, StreamHandle stream) = 0;
  virtual void do_fill(void* to, std::uint8_t value, std::size_t size_bytes, StreamHandle stream) = 0;
  virtual void do_synchronize(StreamHandle stream) = 0;
  virtual void do_synchronize(EventHandle event) = 0;
  virtual void do_launch(GraphHandle graph, StreamHandle stream) = 0;
  virtual void do_launch(FunctionHandle function, std::string_view kernel, const LaunchShape& shape,
                         std::span<const std::byte> args, StreamHandle stream) = 0;

  template <class Wait>
  void wait_for(Wait&& wait);

  DriverCounters counters_;
  std::string last_kernel_;  ///< empty when there was no launch yet, or the last one was a graph
  LaunchShape last_shape_;
};

}  // namespace rocmforge
