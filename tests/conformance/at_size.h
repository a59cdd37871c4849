#pragma once

// What tests at the sizes of real work share: poisoned memory of the GPU, and comparisons of every element there.

#include <algorithm>
#include <cstdio>
#include <string_view>
#include <vector>

#include "checks/inputs.h"
#include "conformance/compared.h"
#include "conformance/harness.h"
#include "kernels/check/comparison.h"

namespace rocmforge::test {

/// A row has few elements, and some rows are small sums of large values.
inline constexpr double row_factor = 15.0;
/// Outputs of a product that are compared as a row: n is a multiple of it.
inline constexpr std::int64_t chunk = 16;

/// Device memory whose every bit is set.
inline DeviceBuffer poisoned_buffer(std::size_t size_bytes) {
  Device& device = *harness().target.device;
  DeviceBuffer buffer = device.allocate(std::max<std::size_t>(size_bytes, 1), "a test");
  device.stream().fill(buffer.data(), 0xff, buffer.size_bytes());
  return buffer;
}

template <class T>
DeviceBuffer uploaded(const std::vector<T>& values) {
  Device& device = *harness().target.device;
  DeviceBuffer buffer = device.allocate(std::max<std::size_t>(values.size() * sizeof(T), 1), "a test");
  device.upload(buffer.data(), values.data(), values.size() * sizeof(T));
  return buffer;
}

/// Values without a pattern.
inline DeviceBuffer random_floats(std::int64_t count, std::uint64_t seed, float size = 1.0f) {
  DeviceBuffer buffer = poisoned_buffer(static_cast<std::size_t>(count) * sizeof(float));
  fill_random(harness().target.device->stream(), buffer.data(), DType::f32, count, seed, size);
  return buffer;
}

/// A result [rows, width] of a call. Before each call it is poisoned, or a copy of `before`.
struct Output {
  Output(DType type, std::int64_t count, std::int64_t row_width, const DeviceBuffer* from = nullptr)
      : dtype(type),
        rows(count),
        width(row_width),
        before(from),
        memory(poisoned_buffer(row_bytes(type, count * row_width))) {}

  void reset(Stream& stream) const {
    if (before == nullptr) {
      stream.fill(memory.data(), 0xff, memory.size_bytes());
    } else {
      stream.copy_on_device(memory.data(), before->data(), memory.size_bytes());
    }
  }

  DType dtype;
  std::int64_t rows;
  std::int64_t width;
  const DeviceBuffer* before;
  DeviceBuffer memory;
};

inline void expect_rows(const Output& actual, const Output& expected, double allowed, std::string_view kernel) {
  const Difference found = compare_on_device(*harness().target.device, actual.memory.data(), expected.memory.data(),
                                             actual.dtype, actual.rows, actual.width, row_factor * allowed);
  EXPECT_EQ(found.missing_rows, 0) << kernel << ": rows that are not written";
  EXPECT_EQ(found.wrong_rows, 0) << kernel << ": wrong rows, the worst is row " << found.worst_row << " by " << found.worst;
  EXPECT_LE(found.relative, allowed) << kernel;
}

/// The bytes of an output, in host memory.
inline std::vector<std::byte> downloaded(const DeviceBuffer& memory) {
  std::vector<std::byte> bytes(memory.size_bytes());
  harness().target.device->stream().synchronize();
  harness().target.device->download(bytes.data(), memory.data(), bytes.size());
  return bytes;
}

/// Pages after an append: what is not written stays poisoned. Those of quantised types are decoded on the processor.
inline void expect_pages(const Output& actual, const Output& expected, const KvLayout& layout, double allowed,
                         std::string_view kernel) {
  if (!layout.dtype.is_quantised()) {
    expect_rows(actual, expected, allowed, kernel);
    return;
  }
  const DecodeOutput decode = decode_pages(layout);
  const OutputDifference found = compare_outputs(decode(downloaded(actual.memory)), decode(downloaded(expected.memory)),
                                                 layout.head_dim, allowed, harness().host.context.pool);
  EXPECT_EQ(found.wrong, 0) << kernel << ": wrong pages, the first in row " << found.first_row << ", column "
                            << found.first_column << ": " << found.first_actual << ", expected " << found.first_expected;
}

/// Ids: all equal.
inline void expect_equal(const Output& actual, const Output& expected, std::string_view kernel) {
  EXPECT_TRUE(downloaded(actual.memory) == downloaded(expected.memory)) << kernel << ": other ids";
}

inline void expect_same(const Output& actual, const DeviceBuffer& first, std::string_view kernel,
                        std::string_view situation) {
  if (actual.dtype == DType::q8_0 || actual.dtype == DType::i32) {
    EXPECT_TRUE(downloaded(actual.memory) == downloaded(first)) << kernel << ", " << situation << ": other bits than alone";
    return;
  }
  const Difference found = compare_on_device(*harness().target.device, actual.memory.data(), first.data(), actual.dtype,
                                             actual.rows, actual.width, 0.0);
  EXPECT_EQ(found.worst, 0.0) << kernel << ", " << situation << ": other bits than alone";
  EXPECT_EQ(found.missing_rows, 0) << kernel << ", " << situation << ": rows that are not written";
}

/// A step's arrays in device memory.
class StepArrays {
 public:
  explicit StepArrays(BatchPlan plan) : plan_(std::move(plan)) {
    for (const auto* array :
         {&plan_.query_offsets, &plan_.kv_lengths, &plan_.block_tables, &plan_.positions, &plan_.sequence_of}) {
      arrays_.push_back(uploaded(*array));
    }
  }
  [[nodiscard]] std::int64_t tokens() const { return plan_.num_tokens(); }
  [[nodiscard]] const BatchPlan& plan() const { return plan_; }
  [[nodiscard]] RaggedBatch batch() const {
    RaggedBatch batch = plan_.view();
    batch.query_offsets = arrays_[0].as<std::int32_t>();
    batch.kv_lengths = arrays_[1].as<std::int32_t>();
    batch.block_tables = arrays_[2].as<std::int32_t>();
    batch.positions = arrays_[3].as<std::int32_t>();
    batch.sequence_of = arrays_[4].as<std::int32_t>();
    return batch;
  }

 private:
  BatchPlan plan_;
  std::vector<DeviceBuffer> arrays_;
};

/// Keeps the device busy for some milliseconds, on a stream of its own.
class BusyStream {
 public:
  explicit BusyStream(Device& device) : stream_(device), memory_(poisoned_buffer(count * sizeof(float))) {
    for (std::uint64_t i = 0; i < 12; ++i) {
      fill_random(stream_, memory_.data(), DType::f32, count, i);
    }
  }
  ~BusyStream() { stream_.synchronize(); }
  BusyStream(const BusyStream&) = delete;
  BusyStream& operator=(const BusyStream&) = delete;

 private:
  static constexpr std::int64_t count = std::int64_t{1} << 24;
  Stream stream_;
  DeviceBuffer memory_;
};

/// Calls run() alone, beside a second stream that keeps the device busy, and twice in a row as a recorded graph, so that one
/// call follows another with the same workspace. The outputs must have the same bits each time.
template <class Run>
void run_in_all_situations(const std::vector<const Output*>& outputs, std::string_view kernel, const Run& run) {
  Device& device = *harness().target.device;
  Stream& stream = device.stream();
  const auto call = [&] {
    for (const Output* output : outputs) {
      output->reset(stream);
    }
    run();
  };
  call();
  std::vector<DeviceBuffer> first;
  for (const Output* output : outputs) {
    first.push_back(poisoned_buffer(output->memory.size_bytes()));
    stream.copy_on_device(first.back().data(), output->memory.data(), first.back().size_bytes());
  }
  stream.synchronize();
  const auto compare = [&](std::string_view situation) {
    std::size_t i = 0;
    for (const Output* output : outputs) {
      expect_same(*output, first[i++], kernel, situation);
    }
  };
  {
    const BusyStream busy(device);
    call();
    stream.synchronize();
  }
  compare("beside a busy stream");
  const Graph graph = stream.capture(call);
  stream.launch(graph);
  stream.launch(graph);
  stream.synchronize();
  compare("replayed");
}

/// Compares every kernel of an operation with the plain one. Outputs are a vector of Output: make() makes them,
/// call(kernel, outputs) gives a function that computes them, compare(actual, expected, name) judges them and returns how
/// many elements it has seen. The result is the sum of these.
template <class Op, class Make, class Call, class Compare>
std::int64_t compare_with_plain(const typename Op::Spec& spec, const Make& make, const Call& call, const Compare& compare) {
  SCOPED_TRACE(to_string(spec));
  Stream& stream = harness().target.device->stream();
  const auto& plain = *harness().registry.choose<Op>(spec, harness().device, "check").kernel;
  const std::vector<Output> expected = make();
  for (const Output& output : expected) {
    output.reset(stream);
  }
  call(plain, expected)();
  stream.synchronize();
  std::int64_t elements = 0;
  harness().for_each_kernel<Op>(spec, [&](const auto& kernel) {
    if (&kernel == &plain) {
      return;
    }
    const std::vector<Output> actual = make();
    std::vector<const Output*> outputs;
    for (const Output& output : actual) {
      outputs.push_back(&output);
    }
    run_in_all_situations(outputs, kernel.name(), call(kernel, actual));
    const std::int64_t compared = compare(actual, expected, kernel.name());
    note_compared(Op::name, kernel.name(), to_string(spec), compared);
    elements += compared;
  });
  return elements;
}

/// The form of an operation's only result.
struct OneOutput {
  std::int64_t rows = 0;
  std::int64_t width = 0;
  const DeviceBuffer* before = nullptr;  ///< what the result is a copy of before each call
  DType dtype = DType::f32;
};

/// compare_with_plain() for one result. fill(out) gives the Args.
template <class Op, class Fill>
std::int64_t compare_one_output(const typename Op::Spec& spec, const OneOutput& form, const Fill& fill) {
  SCOPED_TRACE(testing::Message() << form.rows << " rows");
  const auto make = [&] {
    std::vector<Output> outputs;
    outputs.emplace_back(form.dtype, form.rows, form.width, form.before);
    return outputs;
  };
  const auto call = [&](const OpKernel<Op>& kernel, const std::vector<Output>& outputs) {
    const typename Op::Args args = fill(outputs[0].memory.template as<float>());
    return [&kernel, &spec, args] { kernel.run(spec, args, harness().target.context); };
  };
  return compare_with_plain<Op>(spec, make, call, [&](const auto& actual, const auto& expected, auto kernel) {
    expect_rows(actual[0], expected[0], tolerance(form.dtype), kernel);
    return form.rows * form.width;
  });
}

inline void print_elements(std::string_view name, std::int64_t elements) {
  std::printf("%.*s: %lld elements compared\n", static_cast<int>(name.size()), name.data(),
              static_cast<long long>(elements));
}

}  // namespace rocmforge::test
