#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ops/kernel_registry.h"
#include "rocmforge/attention_c.h"

namespace rocmforge {

/// The implementation of rocmforge/attention.h: dense and paged attention calls on one device, through the registry. Throws
/// Error for wrong shapes, null pointers and specs that no backend supports.
class AttentionLibrary {
 public:
  explicit AttentionLibrary(std::unique_ptr<Device> device);

  void run(const rocmforge_dense_attention& call, const rocmforge_attention_options& options);
  void run(const rocmforge_paged_attention& call, const rocmforge_attention_options& options);
  void synchronize();

  [[nodiscard]] const std::string& device_name() const { return device_name_; }
  [[nodiscard]] const std::string& last_backend() const { return last_backend_; }

 private:
  /// Integer arrays of a call on the device; uploaded when they differ from the last call's.
  struct Arrays {
    std::vector<std::int32_t> query_offsets;
    std::vector<std::int32_t> kv_lengths;
    std::vector<std::int32_t> block_tables;
    std::vector<std::int32_t> positions;
    std::vector<std::int32_t> sequence_of;
  };
  enum class StreamKind { own, borrowed };
  /// Sizes of the caller's tensors in bytes. Tensors in host memory are copied to a GPU.
  struct Tensors {
    std::size_t q = 0;  ///< also of out
    std::size_t k = 0;  ///< of the whole cache in a paged call
    std::size_t v = 0;
    std::size_t mask = 0;
    std::size_t sinks = 0;
  };

  RaggedBatch make_batch(std::int32_t max_blocks);
  void run(const Attention::Spec& spec, const KvLayout& layout, Attention::Args& args, const Tensors& tensors,
           const rocmforge_attention_options& options);
  void launch(const AttentionBackend& backend, const Attention::Spec& spec, const KvLayout& layout, Attention::Args& args,
              Stream* stream);
  /// If the buffer is smaller than `size_bytes`, replaces it by a zeroed one. Waits first for the last call, which may still
  /// use the old one.
  void grow(DeviceBuffer& buffer, std::size_t size_bytes, std::string_view purpose);
  void wait_for_last_call();
  /// Calls on the context's own stream and on borrowed ones share scratch memory and counters. The caller can't order the
  /// two: so a call waits here for the last one on the other kind of stream.
  void begin_on(StreamKind kind);

  std::unique_ptr<Device> device_;
  std::string device_name_;
  std::string last_backend_;
  KernelRegistry registry_;
  std::unique_ptr<ThreadPool> pool_;  ///< null on a GPU
  Arrays arrays_;
  std::vector<std::int32_t> packed_;    ///< arrays_ one after another, as uploaded
  std::vector<std::int32_t> uploaded_;  ///< what array_memory_ holds
  StreamKind last_kind_ = StreamKind::own;
  std::optional<StreamHandle> last_stream_;  ///< the stream of a call that may still run
  DeviceBuffer array_memory_;
  DeviceBuffer workspace_;
  DeviceBuffer state_;
  DeviceBuffer staging_;  ///< copies of the host's tensors
};

}  // namespace rocmforge
