#include "checks/checked_calls.h"

#include <cstring>
#include <utility>

#include "checks/call_arrays.h"

namespace rocmforge {
namespace {

constexpr std::string_view output_purpose = "an output that is compared";

std::size_t bytes_of(std::int64_t elements) { return static_cast<std::size_t>(elements) * sizeof(float); }

void read_output(Device& device, ExecutionContext& context, const DeviceBuffer& from, std::vector<float>& to) {
  if (context.stream != nullptr) {
    context.stream->synchronize();
  }
  device.download(to.data(), from.data(), to.size() * sizeof(float));
}

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

}  // namespace

CheckedCalls::CheckedCalls(Device& device, ExecutionContext& context, std::int64_t rows, std::int64_t width,
                           double tolerance)
    : device_(&device),
      context_(&context),
      width_(width),
      tolerance_(tolerance),
      out_(device.allocate(bytes_of(rows * width), output_purpose)),
      actual_(static_cast<std::size_t>(rows * width)) {}

void* CheckedCalls::scratch(std::size_t size_bytes) {
  return size_bytes == 0 ? nullptr : scratch_.emplace_back(device_->allocate(size_bytes, "the workspace of a call")).data();
}

void CheckedCalls::poison_all() {
  poison(*device_, *context_, out_.data(), out_.size_bytes());
  for (const DeviceBuffer& memory : scratch_) {
    poison(*device_, *context_, memory.data(), memory.size_bytes());
  }
}

OutputDifference CheckedCalls::compare(int input) {
  read_output(*device_, *context_, out_, actual_);
  const std::span<const float> right = expected(input);
  if (right.data() != last_expected_ || !same_bits(actual_, last_actual_)) {
    last_ = compare_outputs(actual_, right, width_, tolerance_);
    last_expected_ = right.data();
    last_actual_ = actual_;
  }
  return last_;
}

OutputDifference CheckedCalls::check_each() {
  OutputDifference worst;
  for (int input = 0; input < inputs() && worst.right(); ++input) {
    poison_all();
    run(input);
    if (const OutputDifference found = compare(input); !found.right() || found.relative >= worst.relative) {
      worst = found;
    }
  }
  poison_all();
  return worst;
}

OutputDifference CheckedCalls::check_last(int input) { return compare(input); }

std::vector<float> output_of_call(Device& device, ExecutionContext& context, std::int64_t elements,
                                  const std::function<void(float* out)>& call) {
  const DeviceBuffer out = device.allocate(bytes_of(elements), output_purpose);
  poison(device, context, out.data(), out.size_bytes());
  call(out.as<float>());
  std::vector<float> values(static_cast<std::size_t>(elements));
  read_output(device, context, out, values);
  return values;
}

}  // namespace rocmforge
