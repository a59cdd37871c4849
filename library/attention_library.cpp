#include "attention_library.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "kernels/register_all.h"

namespace rocmforge {
namespace {

template <class... Values>
void require(bool condition, fmt::format_string<const Values&...> message, const Values&... values) {
  if (!condition) {
    throw Error(fmt::format(message, values...));
  }
}

DType dtype_of(std::int32_t value) {
  require(value == ROCMFORGE_F32 || value == ROCMFORGE_F16 || value == ROCMFORGE_BF16,
          "dtype {} is none of ROCMFORGE_F32, ROCMFORGE_F16, ROCMFORGE_BF16", value);
  return static_cast<DType>(value);
}

void require_pointer(const void* pointer, std::string_view name) { require(pointer != nullptr, "{} is null", name); }

void require_positive(std::int64_t value, std::string_view name) { require(value > 0, "{} is {}", name, value); }

Attention::Spec make_spec(std::int32_t q_heads, std::int32_t kv_heads, std::int32_t head_dim,
                          const rocmforge_attention_options& options) {
  require_positive(q_heads, "q_heads");
  require_positive(kv_heads, "kv_heads");
  require_positive(head_dim, "head_dim");
  Attention::Spec spec{.q_heads = q_heads, .kv_heads = kv_heads, .head_dim = head_dim};
  spec.io_dtype = dtype_of(options.dtype);
  spec.kv_dtype = spec.io_dtype;
  spec.scale = options.scale;
  spec.window = options.window;
  spec.soft_cap = options.soft_cap;
  spec.sinks = options.sinks != nullptr;
  spec.causal = options.causal != 0;
  return spec;
}

std::size_t bytes_of(DType dtype, std::int64_t elems) { return row_bytes(dtype, elems); }

std::size_t aligned(std::size_t size_bytes) { return (size_bytes + 255) / 256 * 256; }

/// Checks that the arrays of a paged call agree with each other and with the cache.
void check_call(const rocmforge_paged_attention& call) {
  require_positive(call.num_sequences, "num_sequences");
  require(call.num_tokens >= 0, "num_tokens is {}", call.num_tokens);
  require_positive(call.max_blocks, "max_blocks");
  require_positive(call.num_blocks, "num_blocks");
  require(call.block_tokens >= 16 && (call.block_tokens & (call.block_tokens - 1)) == 0,
          "block_tokens {} is not a power of two of at least 16", call.block_tokens);
  require_pointer(call.query_offsets, "query_offsets");
  require_pointer(call.kv_lengths, "kv_lengths");
  require_pointer(call.block_tables, "block_tables");
  require_pointer(call.q, "q");
  require_pointer(call.cache, "cache");
  require_pointer(call.out, "out");
  require(call.query_offsets[0] == 0, "query_offsets start with {}, not 0", call.query_offsets[0]);
  require(call.query_offsets[call.num_sequences] == call.num_tokens, "query_offsets end with {}, but num_tokens is {}",
          call.query_offsets[call.num_sequences], call.num_tokens);
  for (std::int32_t s = 0; s < call.num_sequences; ++s) {
    const std::int32_t q_len = call.query_offsets[s + 1] - call.query_offsets[s];
    const std::int32_t kv_len = call.kv_lengths[s];
    require(q_len >= 0, "query_offsets fall at sequence {}", s);
    require(kv_len >= q_len, "sequence {} has {} queries, but kv_length {}", s, q_len, kv_len);
    const std::int32_t blocks = (kv_len + call.block_tokens - 1) / call.block_tokens;
    require(blocks <= call.max_blocks, "sequence {} of length {} needs {} blocks of {} tokens, max_blocks is {}", s, kv_len,
            blocks, call.block_tokens, call.max_blocks);
    for (std::int32_t b = 0; b < blocks; ++b) {
      const std::int32_t block = call.block_tables[std::int64_t{s} * call.max_blocks + b];
      require(block >= 0 && block < call.num_blocks, "block_tables of sequence {}, entry {} name block {} of {}", s, b,
              block, call.num_blocks);
    }
  }
}

}  // namespace

AttentionLibrary::AttentionLibrary(std::unique_ptr<Device> device) : device_(std::move(device)) {
  device_name_ = fmt::format("{} ({})", device_->info().name, device_->info().architecture);
  register_all_kernels(registry_);
  if (!device_->is_gpu()) {
    pool_ = std::make_unique<ThreadPool>(device_->info().compute_units);
  }
}

void AttentionLibrary::run(const rocmforge_dense_attention& call, const rocmforge_attention_options& options) {
  require_positive(call.batch, "batch");
  require_positive(call.q_len, "q_len");
  require(call.kv_len >= 0, "kv_len is {}", call.kv_len);
  require_pointer(call.q, "q");
  require_pointer(call.k, "k");
  require_pointer(call.v, "v");
  require_pointer(call.out, "out");
  const std::int64_t tokens = std::int64_t{call.batch} * call.q_len;
  require(tokens <= INT32_MAX, "batch {} times q_len {} are too many rows", call.batch, call.q_len);
  Attention::Spec spec = make_spec(call.q_heads, call.kv_heads, call.head_dim, options);
  spec.mask = call.mask != nullptr;
  spec.most_rows = call.q_len == 1 ? 1 : 0;

  arrays_ = {};
  for (std::int32_t b = 0; b <= call.batch; ++b) {
    arrays_.query_offsets.push_back(b * call.q_len);
  }
  arrays_.kv_lengths.assign(static_cast<std::size_t>(call.batch), call.kv_len);

  Attention::Args args;
  args.q = call.q;
  args.out = call.out;
  args.mask = call.mask;
  args.mask_stride = call.kv_len;
  const std::int64_t kv_width = std::int64_t{call.kv_heads} * call.head_dim;
  args.dense = {call.k, call.v, call.kv_len * kv_width, kv_width, call.head_dim};
  const KvLayout layout{.dtype = spec.kv_dtype, .kv_heads = spec.kv_heads, .head_dim = spec.head_dim};
  const std::size_t kv_bytes = bytes_of(spec.kv_dtype.k, call.batch * call.kv_len * kv_width);
  const std::int64_t q_elems = tokens * call.q_heads * call.head_dim;
  const auto mask_bytes = static_cast<std::size_t>(tokens * call.kv_len) * sizeof(float);
  args.batch = make_batch(0);
  run(spec, layout, args,
      {.q = bytes_of(spec.io_dtype, q_elems), .k = kv_bytes, .v = kv_bytes, .mask = spec.mask ? mask_bytes : 0}, options);
}

void AttentionLibrary::run(const rocmforge_paged_attention& call, const rocmforge_attention_options& options) {
  Attention::Spec spec = make_spec(call.q_heads, call.kv_heads, call.head_dim, options);
  check_call(call);
  const KvLayout layout{
      .dtype = spec.kv_dtype, .block_tokens = call.block_tokens, .kv_heads = spec.kv_heads, .head_dim = spec.head_dim};
  arrays_ = {};
  arrays_.query_offsets.assign(call.query_offsets, call.query_offsets + call.num_sequences + 1);
  arrays_.kv_lengths.assign(call.kv_lengths, call.kv_lengths + call.num_sequences);
  arrays_.block_tables.assign(call.block_tables, call.block_tables + std::int64_t{call.num_sequences} * call.max_blocks);
  Attention::Args args;
  args.q = call.q;
  args.out = call.out;
  args.cache = {const_cast<void*>(call.cache), call.num_blocks};
  args.batch = make_batch(call.max_blocks);
  spec.most_rows = args.batch.max_q_len <= 1 ? 1 : 0;
  const std::int64_t q_elems = std::int64_t{call.num_tokens} * call.q_heads * call.head_dim;
  run(spec, layout, args,
      {.q = bytes_of(spec.io_dtype, q_elems), .k = layout.block_bytes() * static_cast<std::size_t>(call.num_blocks)},
      options);
}

/// Derives positions and sequence indices from query offsets and KV lengths, and uploads all arrays to a GPU.
RaggedBatch AttentionLibrary::make_batch(std::int32_t max_blocks) {
  RaggedBatch batch;
  batch.num_sequences = static_cast<std::int32_t>(arrays_.kv_lengths.size());
  batch.num_tokens = arrays_.query_offsets.back();
  batch.max_blocks = max_blocks;
  for (std::int32_t s = 0; s < batch.num_sequences; ++s) {
    const auto index = static_cast<std::size_t>(s);
    const std::int32_t q_len = arrays_.query_offsets[index + 1] - arrays_.query_offsets[index];
    batch.max_q_len = std::max(batch.max_q_len, q_len);
    batch.max_kv_len = std::max(batch.max_kv_len, arrays_.kv_lengths[index]);
    for (std::int32_t i = 0; i < q_len; ++i) {
      arrays_.sequence_of.push_back(s);
      arrays_.positions.push_back(arrays_.kv_lengths[index] - q_len + i);
    }
  }
  packed_.clear();
  std::vector<std::size_t> starts;
  for (const auto* array :
       {&arrays_.query_offsets, &arrays_.kv_lengths, &arrays_.block_tables, &arrays_.positions, &arrays_.sequence_of}) {
    starts.push_back(packed_.size());
    packed_.insert(packed_.end(), array->begin(), array->end());
  }
  const std::int32_t* base = packed_.data();
  if (device_->is_gpu()) {
    if (packed_ != uploaded_) {
      wait_for_last_call();  // it may still read the old arrays
      grow(array_memory_, packed_.size() * sizeof(std::int32_t), "the arrays of an attention call");
      device_->upload(array_memory_.data(), packed_.data(), packed_.size() * sizeof(std::int32_t));
      uploaded_ = packed_;
    }
    base = array_memory_.as<std::int32_t>();
  }
  batch.query_offsets = base + starts[0];
  batch.kv_lengths = base + starts[1];
  batch.block_tables = base + starts[2];
  batch.positions = base + starts[3];
  batch.sequence_of = base + starts[4];
  return batch;
}

void AttentionLibrary::run(const Attention::Spec& spec, const KvLayout& layout, Attention::Args& args,
                           const Tensors& tensors, const rocmforge_attention_options& options) {
  std::string_view wanted = options.backend != nullptr ? options.backend : "";
  if (wanted.empty() && !device_->is_gpu()) {
    wanted = "reference";  // the only CPU backend that reads plain tensors
  }
  const AttentionBackend& backend = *registry_.choose<Attention>(spec, device_->info(), wanted).kernel;
  last_backend_ = backend.name();
  args.sinks = options.sinks;
  args.q_stride = std::int64_t{spec.q_heads} * spec.head_dim;
  if (!device_->is_gpu()) {
    launch(backend, spec, layout, args, nullptr);
    return;
  }
  if (options.on_device != 0 && options.own_stream == 0) {
    begin_on(StreamKind::borrowed);
    Stream borrowed(*device_, StreamHandle{options.stream});
    launch(backend, spec, layout, args, &borrowed);
    return;
  }
  begin_on(StreamKind::own);
  if (options.on_device != 0) {
    launch(backend, spec, layout, args, &device_->stream());
    return;
  }
  const std::size_t sinks_bytes = spec.sinks ? static_cast<std::size_t>(spec.q_heads) * sizeof(float) : 0;
  grow(staging_,
       2 * aligned(tensors.q) + aligned(tensors.k) + aligned(tensors.v) + aligned(tensors.mask) + aligned(sinks_bytes),
       "copies of an attention call's tensors");
  std::byte* next = staging_.data();
  const auto stage = [&](const void* from, std::size_t size_bytes) {
    std::byte* to = next;
    next += aligned(size_bytes);
    if (size_bytes > 0) {
      device_->upload(to, from, size_bytes);
    }
    return to;
  };
  void* host_out = args.out;
  args.q = stage(args.q, tensors.q);
  if (args.dense.k != nullptr) {
    args.dense.k = stage(args.dense.k, tensors.k);
    args.dense.v = stage(args.dense.v, tensors.v);
  } else {
    args.cache.data = stage(args.cache.data, tensors.k);
  }
  args.mask = tensors.mask > 0 ? reinterpret_cast<const float*>(stage(args.mask, tensors.mask)) : args.mask;
  args.sinks = sinks_bytes > 0 ? reinterpret_cast<const float*>(stage(args.sinks, sinks_bytes)) : nullptr;
  args.out = next;
  launch(backend, spec, layout, args, &device_->stream());
  device_->download(host_out, args.out, tensors.q);
}

void AttentionLibrary::launch(const AttentionBackend& backend, const Attention::Spec& spec, const KvLayout& layout,
                              Attention::Args& args, Stream* stream) {
  const AttentionLimits limits{.max_tokens = args.batch.num_tokens,
                               .max_sequences = args.batch.num_sequences,
                               .max_kv_len = args.batch.max_kv_len,
                               .num_threads = pool_ != nullptr ? pool_->num_threads() : 1};
  grow(workspace_, backend.workspace_bytes(spec, limits), "attention's workspace");
  grow(state_, backend.state_bytes(spec, limits), "attention's counters");
  args.workspace = workspace_.data();
  args.state = state_.data();
  if (stream != nullptr) {
    last_stream_ = stream->handle();
  }
  ExecutionContext context{pool_.get(), stream};
  backend.run(spec, layout, args, context);
}

void AttentionLibrary::grow(DeviceBuffer& buffer, std::size_t size_bytes, std::string_view purpose) {
  if (buffer.size_bytes() < size_bytes) {
    wait_for_last_call();
    buffer = DeviceBuffer();
    buffer = device_->allocate(size_bytes, purpose);
  }
}

void AttentionLibrary::wait_for_last_call() {
  if (last_stream_) {
    device_->driver().synchronize(*last_stream_);
    last_stream_.reset();
  }
}

void AttentionLibrary::begin_on(StreamKind kind) {
  if (kind != last_kind_) {
    wait_for_last_call();
    last_kind_ = kind;
  }
}

void AttentionLibrary::synchronize() {
  if (device_->is_gpu()) {
    device_->stream().synchronize();
  }
}

}  // namespace rocmforge
