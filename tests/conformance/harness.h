#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "conformance/inputs.h"
#include "conformance/paged_batch.h"
#include "kernels/register_all.h"

namespace rocmforge::test {

/// What every test of the suite runs on: all registered kernels, this machine's processor, and a pool.
struct Harness {
  KernelRegistry registry;
  DeviceInfo device = cpu_device_info();
  ThreadPool pool{3};
  ExecutionContext context{&pool};

  Harness() { register_all_kernels(registry); }

  template <class Op>
  using Kernel = typename KernelInterfaceOf<Op>::type;

  template <class Op>
  const Kernel<Op>& reference(const typename Op::Spec& spec) {
    return *registry.choose<Op>(spec, device, "reference").kernel;
  }

  /// Calls test(kernel) for every kernel but the reference that supports `spec` here; `spec` must have one.
  template <class Op, class Test>
  void for_each_kernel(const typename Op::Spec& spec, const Test& test) {
    int count = 0;
    for (const auto& kernel : registry.all<Op>()) {
      if (kernel->device() != device.kind || kernel->name() == "reference" || !kernel->supports(spec, device).ok) {
        continue;
      }
      SCOPED_TRACE(std::string(kernel->name()) + " " + to_string(spec));
      test(*kernel);
      ++count;
    }
    EXPECT_GT(count, 0) << "only the reference serves " << to_string(spec);
  }
};

/// One per program: threads and registry are made once.
inline Harness& harness() {
  static Harness instance;
  return instance;
}

/// Largest relative error of results whose inputs or storage have this type.
inline double tolerance(DType type) {
  switch (type) {
    case DType::f32:
      return 1e-5;
    case DType::f16:
      return 1e-3;
    case DType::bf16:
      return 8e-3;
    default:
      return 5e-3;  // quantised weights with 8-bit activations
  }
}

/// An attention problem: inputs, and runs of any kernel on them.
class AttentionProblem {
 public:
  AttentionProblem(const Attention::Spec& spec, std::vector<SequenceShape> shapes, std::uint64_t seed, float spread = 1.5f);

  /// The output [tokens, q_heads * head_dim] of all queries in one call. `block_tokens` 0 keeps the kernel's default.
  std::vector<float> run(const AttentionBackend& kernel, ExecutionContext& context, std::int32_t block_tokens = 0,
                         std::uint64_t block_seed = 1) const;

  Attention::Spec spec;
  std::vector<SequenceShape> shapes;
  std::vector<float> q;  ///< [tokens, q_heads * head_dim]
  PagedSequences kv;
  std::vector<float> sinks;
};

/// Runs a kernel on part of a problem: sequences and rows chosen by the caller, K and V present up to each kv_len only.
std::vector<float> run_attention(const AttentionBackend& kernel, const Attention::Spec& spec, PagedCache& cache,
                                 std::span<const SequenceShape> shapes, std::span<const float> q,
                                 std::span<const float> sinks, ExecutionContext& context);

std::vector<std::int32_t> kv_lengths(std::span<const SequenceShape> shapes);

}  // namespace rocmforge::test
