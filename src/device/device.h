#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <typeindex>
#include <unordered_map>
#include <vector>

#include "base/error.h"
#include "device/driver.h"
#include "device/kernel_library.h"

namespace rocmforge {

class Device;
class ThreadPool;
class Uploader;

/// The place of a buffer: the device's memory (for the CPU anonymous memory in huge pages), or pinned host memory, from and
/// to which the device copies without waiting.
enum class BufferKind { device, pinned };

/// Zeroed memory. Move-only.
template <BufferKind kind>
class Buffer {
 public:
  Buffer() = default;
  ~Buffer();
  Buffer(Buffer&& other) noexcept;
  Buffer& operator=(Buffer&& other) noexcept;
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

  [[nodiscard]] std::byte* data() const { return data_; }
  [[nodiscard]] std::size_t size_bytes() const { return size_bytes_; }
  template <class T>
  [[nodiscard]] T* as() const {
    return reinterpret_cast<T*>(data_);
  }

 private:
  friend class Device;
  Buffer(Device& device, std::byte* data, std::size_t size_bytes);

  Device* device_ = nullptr;
  std::byte* data_ = nullptr;
  std::size_t size_bytes_ = 0;
};

using DeviceBuffer = Buffer<BufferKind::device>;
using PinnedBuffer = Buffer<BufferKind::pinned>;

/// A point in the work of a stream. Move-only.
class Event {
 public:
  explicit Event(Device& device);
  ~Event();
  Event(Event&& other) noexcept;
  Event& operator=(Event&& other) noexcept;
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;

  void synchronize();  ///< the host waits until the stream has reached the event
  [[nodiscard]] bool finished() const;
  /// The time between two recorded and finished events of the same device.
  [[nodiscard]] static double elapsed_seconds(const Event& from, const Event& to);

 private:
  friend class Stream;
  Device* device_;
  EventHandle handle_;
};

/// Recorded work that is replayed with one call. Move-only.
class Graph {
 public:
  Graph() = default;
  ~Graph();
  Graph(Graph&& other) noexcept;
  Graph& operator=(Graph&& other) noexcept;
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;

  [[nodiscard]] explicit operator bool() const { return handle_.value != nullptr; }

 private:
  friend class Stream;
  Device* device_ = nullptr;
  GraphHandle handle_;
};

class Stream;

/// A launch that a stream holds back, so that its successor may join it.
class HeldLaunch {
 public:
  virtual ~HeldLaunch() = default;
  /// Puts it on the stream, once.
  virtual void put_on(Stream& stream) = 0;
};

/// Work on one GPU that runs in order. Sizes are in bytes, and addresses are device addresses unless the name says
/// otherwise.
class Stream {
 public:
  explicit Stream(Device& device);
  /// A stream of another owner, who also destroys it. Null is the runtime's default stream. Its kernels do not overlap with
  /// their predecessors: a kernel of the owner may write what ours read before they wait.
  Stream(Device& device, StreamHandle borrowed) : device_(&device), handle_(borrowed), owned_(false), overlap_(false) {}
  ~Stream();
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  void copy_to_device(void* to, const void* from_host, std::size_t size_bytes);
  void copy_to_host(void* to_host, const void* from, std::size_t size_bytes);
  void copy_on_device(void* to, const void* from, std::size_t size_bytes);
  void fill(void* to, std::uint8_t value, std::size_t size_bytes);

  /// Whether launches may be held back, so that later ones can join them. False at first, and for a stream of another owner.
  [[nodiscard]] bool may_hold() const { return owned_ && merge_; }
  /// Allocates the counters the first time that it is allowed.
  void allow_merging(bool allowed);
  /// Holds `launch` back until anything else is put on the stream, the host waits for it, or device memory is freed.
  void hold(std::unique_ptr<HeldLaunch> launch);
  /// The launch that is held back, or null. It may take in the launch that would follow it.
  [[nodiscard]] HeldLaunch* held() const { return held_.get(); }
  /// Puts the held launch on the stream, if there is one.
  void put_held();
  /// Counters for work-groups that wait for each other: most_counters of them, zero before and after each launch that uses
  /// them. Null until merging is allowed.
  [[nodiscard]] std::uint32_t* counters() const { return counters_.as<std::uint32_t>(); }
  static constexpr std::size_t most_counters = 16;

  /// Runs the kernel `kernel` of the source `object`. `args` is its only parameter.
  void launch(std::string_view object, std::string_view kernel, const LaunchShape& shape, std::span<const std::byte> args);
  void launch(const Graph& graph);
  /// Whether launches and recordings from now on use LaunchShape::dependent. True at first for an own stream. A kernel that
  /// overlaps reads weights, arrays of the step and cached keys before its predecessor has ended: so a copy or another work
  /// that waits must lie between two steps.
  void allow_overlap(bool allowed) { overlap_ = allowed; }
  /// Whether the host waits after each kernel that is not recorded: its error then names it, and no two kernels run beside
  /// each other. False at first.
  void wait_after_launches(bool waits) { waits_ = waits; }
  /// Whether all work on the stream except the last launch has ended when a dependent kernel that is launched next starts.
  /// If so, that kernel may read the results of the earlier work before wait_for_predecessor().
  [[nodiscard]] bool all_but_last_ended() const { return all_but_last_ended_; }

  /// Records everything that `record` puts on this stream as a graph, and does not run it. When `record` throws, the capture
  /// ends and the exception is passed on.
  template <class Record>
  Graph capture(Record&& record) {
    begin_capture();
    try {
      record();
    } catch (...) {
      abandon_capture();
      throw;
    }
    return end_capture();
  }

  void record(Event& event);
  void wait(const Event& event);  ///< the stream waits, the host does not
  void synchronize();             ///< the host waits

  /// The parts of capture(). Whoever begins one ends or abandons it.
  void begin_capture();
  Graph end_capture();
  void abandon_capture() noexcept;

  [[nodiscard]] Device& device() const { return *device_; }
  /// For work that a vendor's library puts on the stream.
  [[nodiscard]] StreamHandle handle() {
    put_held();
    return handle_;
  }

 private:
  Device* device_;
  StreamHandle handle_;
  bool owned_ = true;
  bool overlap_ = true;
  bool merge_ = false;
  bool waits_ = false;
  bool capturing_ = false;
  bool all_but_last_ended_ = false;
  std::unique_ptr<HeldLaunch> held_;
  DeviceBuffer counters_;
};

/// The device that computes a model: the CPU, or one GPU with its code objects loaded. It owns the compute stream and must
/// outlive everything made from it.
class Device {
 public:
  /// The CPU. `isa_limit` limits the instruction set.
  explicit Device(CpuIsa isa_limit = CpuIsa::avx512);
  /// A GPU. Throws Error when `kernels` has none for its architecture; the message lists the architectures that it has.
  Device(std::unique_ptr<Driver> driver, const KernelLibrary& kernels);
  ~Device();
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  [[nodiscard]] const DeviceInfo& info() const { return info_; }
  [[nodiscard]] bool is_gpu() const { return driver_ != nullptr; }

  /// Zeroed memory, at least 256-byte aligned. Throws Error when there is not enough. The message names `purpose`: "cannot
  /// allocate 3.20 GiB for the KV cache: 1.10 of 16.00 GiB are free on AMD Radeon RX 7900 XT".
  DeviceBuffer allocate(std::size_t size_bytes, std::string_view purpose);
  PinnedBuffer allocate_pinned(std::size_t size_bytes);
  /// The bytes of all DeviceBuffers of this device that exist. Other processes' memory does not count.
  [[nodiscard]] std::size_t allocated_bytes() const { return allocated_bytes_.load(std::memory_order_relaxed); }
  /// The bytes that can still be allocated on a GPU; empty for the CPU.
  [[nodiscard]] std::optional<Driver::Memory> memory();

  /// Copies host memory of any kind to the device's and waits until `from` may be reused. The copy has ended for whatever is
  /// put on the compute stream later. The threads of `pool`, if there is one, share the host's part. On the CPU this is a
  /// memcpy.
  void upload(void* to, const void* from, std::size_t size_bytes, ThreadPool* pool = nullptr);
  /// Waits until every upload has ended, and frees the pinned memory that uploads take. Throws Error when one has failed.
  void finish_uploads();
  /// Copies to host memory and waits until the copy has ended.
  void download(void* to, const void* from, std::size_t size_bytes);

  // GPU only.
  [[nodiscard]] Stream& stream() { return *stream_; }  ///< the compute stream
  [[nodiscard]] Driver& driver() { return *driver_; }
  [[nodiscard]] FunctionHandle function(std::string_view object, std::string_view kernel);
  [[nodiscard]] FunctionInfo function_info(std::string_view object, std::string_view kernel);
  /// KernelLibrary::hash_of_objects of its own objects; empty for the CPU.
  [[nodiscard]] std::string kernels_hash() const;

  /// An object of type T that lives as long as this device (a library's handle). `make` creates it, as a std::unique_ptr<T>,
  /// at the first call.
  template <class T, class Make>
  [[nodiscard]] T& kept(Make&& make) {
    std::shared_ptr<void>& slot = kept_[typeid(T)];
    if (!slot) {
      slot = std::shared_ptr<T>(make());
    }
    return *static_cast<T*>(slot.get());
  }

 private:
  template <BufferKind kind>
  friend class Buffer;
  void release(BufferKind kind, std::byte* data, std::size_t size_bytes) noexcept;
  void count_allocated(BufferKind kind, std::size_t size_bytes) noexcept {
    allocated_bytes_.fetch_add(kind == BufferKind::device ? size_bytes : 0, std::memory_order_relaxed);
  }
  void put_held() noexcept;
  void load_modules(const std::string& architecture);
  void unload() noexcept;

  DeviceInfo info_;
  KernelLibrary kernels_;  ///< owns the code objects, which runtimes may read while their modules are loaded
  std::unique_ptr<Driver> driver_;
  std::map<std::string, ModuleHandle, std::less<>> modules_;  ///< by source name
  struct Names {
    std::string_view object;
    std::string_view kernel;
    friend bool operator==(const Names&, const Names&) = default;
  };
  struct HashNames {
    std::size_t operator()(const Names& names) const {
      return std::hash<std::string_view>()(names.object) * 31 + std::hash<std::string_view>()(names.kernel);
    }
  };
  struct Function {
    std::string object;
    std::string kernel;
    FunctionHandle handle;
  };
  std::unordered_map<Names, std::unique_ptr<Function>, HashNames> functions_;  ///< keys view the values' strings
  std::map<std::type_index, std::shared_ptr<void>> kept_;
  std::atomic<std::size_t> allocated_bytes_ = 0;  ///< before the stream, whose counters it counts
  std::unique_ptr<Stream> stream_;
  std::unique_ptr<Uploader> uploader_;
};

/// Whether a kernel itself keeps the order of the stream (launch_order.h), or the runtime does. by_kernel_in_turn: the
/// kernel waits for its predecessor before it lets its successor start.
enum class LaunchOrder { by_runtime, by_kernel, by_kernel_in_turn };

/// A kernel, named by its source and its function, with the type of its only parameter. `Args` is plain data, the same
/// struct in host and device code.
template <class Args>
class Kernel {
 public:
  constexpr Kernel(std::string_view object, std::string_view kernel, LaunchOrder order = LaunchOrder::by_runtime)
      : object_(object), kernel_(kernel), order_(order) {}

  void launch(Stream& stream, const LaunchShape& shape, const Args& args) const {
    static_assert(std::is_trivially_copyable_v<Args> && std::is_standard_layout_v<Args>);
    LaunchShape ordered = shape;
    ordered.dependent = order_ != LaunchOrder::by_runtime;
    ordered.waits_first = order_ == LaunchOrder::by_kernel_in_turn;
    stream.launch(object_, kernel_, ordered, std::as_bytes(std::span(&args, 1)));
  }

 private:
  std::string_view object_;
  std::string_view kernel_;
  LaunchOrder order_;
};

/// A vendor's runtime that was opened in search of devices.
struct TriedRuntime {
  std::string library;  ///< its file
  std::string version;  ///< empty when it does not say
  int devices = 0;
  std::string problem;  ///< why it has none
};

/// The result of the search for one runtime.
struct RuntimeReport {
  DeviceKind kind = DeviceKind::hip;
  std::string library;              ///< the file that was opened, or the files that were tried
  std::string version;              ///< empty when the runtime was not found
  std::string problem;              ///< the reason why there are no devices, empty when there are
  std::string kernel_driver;        ///< HIP: "amdgpu of Linux 6.8.0", empty when none is loaded
  std::vector<DeviceInfo> devices;  ///< in the runtime's order
};

/// What a program's environment says about AMD's runtimes.
struct RocmSurroundings {
  std::vector<std::filesystem::path> folders;          ///< of ROCm, whose HIP runtime is tried before all others
  std::vector<std::filesystem::path> python_prefixes;  ///< below which pip may have installed ROCm
  std::vector<std::string> settings;  ///< "HIP_VISIBLE_DEVICES=1": variables by which the runtime hides or renames devices
};

/// Forgets which HIP runtime was chosen. To be called before the first search, by one thread.
void set_rocm_surroundings(RocmSurroundings surroundings);

/// RocmSurroundings::settings, with commas between them.
std::string rocm_settings();

/// All HIP runtimes of the machine with their versions and numbers of devices. Each is initialised in a child process, so
/// that they do not meet, and one that crashes or hangs (10 s) is named. To be called before threads are started.
std::vector<TriedRuntime> list_hip_runtimes();

/// Looks for both runtimes. Does not throw when one is missing: the report contains the reason.
std::vector<RuntimeReport> find_runtimes();

/// Opens one GPU. Throws Error when the runtime or the device does not exist.
std::unique_ptr<Driver> open_driver(DeviceKind kind, int index = 0);

/// Opens "auto" (the first GPU with kernels in `kernels`, else the CPU), "cpu", "hip", "cuda", "hip:1" or "cuda:0". Throws
/// Error with the list of devices when the device is missing or has no kernels. "auto" logs the reason for each GPU that is
/// found but not used.
std::unique_ptr<Device> open_device(std::string_view wanted, const KernelLibrary& kernels,
                                    CpuIsa isa_limit = CpuIsa::avx512);

}  // namespace rocmforge
