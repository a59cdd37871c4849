#include "checks/cases.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <tuple>
#include <type_traits>
#include <utility>
#include <variant>

#include "checks/oracle.h"

namespace rocmforge {
namespace {

template <class Op>
using KernelOf = typename KernelInterfaceOf<Op>::type;

/// The arrays of a problem in the memory where kernels of `device` run.
PlacedArrays placed(CheckBench& bench, const CallArrays& arrays, DeviceKind device) {
  const bool on_host = device == DeviceKind::cpu;
  return {arrays, on_host ? bench.host() : bench.device(), on_host ? bench.host_context() : bench.context(),
          bench.host_context()};
}

/// A kernel with the arrays of its calls.
template <class Op>
class BoundKernel {
 public:
  BoundKernel(const CallProblem<Op>& problem, const KernelOf<Op>& kernel, PlacedArrays& place)
      : place_(&place), call_(problem.bind(kernel, place)) {}

  /// One call on poisoned outputs; returns the bytes of every output.
  std::vector<std::vector<std::byte>> outputs() {
    run();
    std::vector<std::vector<std::byte>> outputs;
    for_each_output([&](std::size_t index) { outputs.push_back(place_->read(index)); });
    return outputs;
  }
  /// The same; returns whether every output has these bytes.
  bool gives(const std::vector<std::vector<std::byte>>& outputs) {
    run();
    std::size_t output = 0;
    bool same = true;
    for_each_output([&](std::size_t index) { same = place_->holds(index, outputs[output++]) && same; });
    return same;
  }
  void call() { call_(); }

 private:
  void run() {
    place_->reset();
    call_();
    place_->wait();
  }
  template <class Visit>
  void for_each_output(const Visit& visit) const {
    for (std::size_t i = 0; i < place_->arrays().all().size(); ++i) {
      if (place_->arrays().all()[i].compared()) {
        visit(i);
      }
    }
  }

  PlacedArrays* place_;
  std::function<void()> call_;
};

/// Compares every output; false at the first that is wrong.
bool compare_all(const CallArrays& arrays, double tolerance, const std::vector<std::vector<std::byte>>& actual,
                 const std::vector<std::vector<std::byte>>& expected, ThreadPool* pool, CallResult& result) {
  std::size_t output = 0;
  for (const CallArrays::Array& array : arrays.all()) {
    if (!array.compared()) {
      continue;
    }
    const OutputDifference found =
        compare_outputs(array.decode(actual[output]), array.decode(expected[output]), array.width, tolerance, pool);
    ++output;
    result.elements += found.elements;
    if (!found.right()) {
      result.difference = found;
      result.problem = describe(found, array.name);
      return false;
    }
    if (found.relative >= result.difference.relative) {
      result.difference = found;
    }
  }
  return true;
}

template <class Op>
CallResult check_calls(CheckBench& bench, const CallShape<Op>& shape, const KernelOf<Op>& kernel,
                       const KernelOf<Op>& oracle) {
  CallResult result;
  bench.on_phase(CheckPhase::inputs);
  const CallProblem<Op> problem = shape.make();
  result.bytes = problem.bytes;
  result.flops = problem.flops;
  result.oracle = oracle.name();
  PlacedArrays place = placed(bench, problem.arrays, kernel.device());
  const auto expect = [&](PlacedArrays& where) {
    BoundKernel<Op> plain(problem, oracle, where);
    bench.on_phase(CheckPhase::oracle);
    return plain.outputs();
  };
  const auto expect_elsewhere = [&] {
    PlacedArrays own = placed(bench, problem.arrays, oracle.device());
    return expect(own);
  };
  // Where both run on one device they have the same arrays: what the oracle has written is poisoned again.
  const auto expected = oracle.device() == kernel.device() ? expect(place) : expect_elsewhere();
  bench.on_phase(CheckPhase::inputs);
  BoundKernel<Op> tested(problem, kernel, place);
  bench.on_phase(CheckPhase::call);
  const auto first = tested.outputs();
  bench.on_phase(CheckPhase::comparison);
  if (!compare_all(problem.arrays, problem.tolerance, first, expected, bench.host_context().pool, result)) {
    return result;
  }
  bench.on_phase(CheckPhase::call_beside_load);
  bench.load().start();
  const bool same = tested.gives(first);
  bench.load().wait();
  bench.on_phase(CheckPhase::comparison);
  if (const std::string damaged = place.damaged(); !damaged.empty()) {
    result.problem = "wrote " + damaged;
    return result;
  }
  if (!same) {
    result.problem = "a second call with the same inputs gave other bits";
    return result;
  }
  if (bench.times_calls) {
    bench.on_phase(CheckPhase::timing);
    result.seconds = bench.seconds_of([&] { tested.call(); });
  }
  return result;
}

/// A case and its place in the order: a shape of each use in turn, of these the first use of each kernel before others, and
/// of these the one with the least work.
struct OrderedCase {
  std::size_t round;
  std::size_t use;  ///< of this kernel
  double work;
  KernelCase one;
};

/// The round in which shape `i` of `count` has its turn, with the smallest shape first: 0, count - 1, 1, count - 2 and so
/// on. Faults of pipelines show in large shapes, so a check that is cut short has tried them.
std::size_t round_of(std::size_t i, std::size_t count) { return std::min(2 * i, 2 * (count - 1 - i) + 1); }

/// The code that a kernel runs for a use: what it only does more or less often is left out.
template <class Op>
std::string code_of(typename Op::Spec spec) {
  if constexpr (std::is_same_v<Op, Matmul>) {
    spec.n = 0;
    spec.k = 0;
  } else if constexpr (std::is_same_v<Op, Attention>) {
    // Prompts have tiles of one query head; a decode's work-group has those of a KV head.
    spec.q_heads = spec.most_rows > 0 ? spec.q_heads / spec.kv_heads : 1;
    spec.kv_heads = 1;
  }
  return to_string(spec);
}

/// The kernels that have cases.
struct KnownKernels {
  std::map<std::string, std::size_t> uses;  ///< of each kernel
  std::set<std::string> codes;
};

template <class Op>
void add_cases(const KernelUse<Op>& use, const KernelRegistry& registry, const DeviceInfo& device,
               const CaseOptions& options, KnownKernels& known, std::vector<OrderedCase>& cases) {
  if constexpr (CheckedOperations::has<Op>) {
    const KernelOf<Op>* const oracle = oracle_of<Op>(registry, use.spec, device);
    if (oracle == nullptr) {
      return;
    }
    const double most = oracle->device() == DeviceKind::cpu ? options.host_work : options.device_work;
    const std::string name = fmt::format("{} {}", Op::name, use.kernel->name());
    const std::size_t number = known.uses[name]++;
    ShapeLimits limits = options.limits;
    limits.units = std::max(device.compute_units, 1);
    limits.is_repeated = options.each_code_once && number > 0;
    limits.is_alike = options.each_code_once && !known.codes.insert(name + " " + code_of<Op>(use.spec)).second;
    std::vector<CallShape<Op>> shapes;
    bool is_reduced = false;
    for (CallShape<Op>& shape : shapes_of(use, limits)) {
      if (shapes.empty() || shape.work <= most) {  // the first one is small
        shapes.push_back(std::move(shape));
      } else {
        is_reduced = true;
      }
    }
    std::ranges::stable_sort(shapes, {}, &CallShape<Op>::work);
    if (options.only_largest && !shapes.empty()) {
      const CallShape<Op> largest = std::move(shapes.back());
      shapes.pop_back();
      std::erase_if(shapes, [&](const CallShape<Op>& shape) { return shape.tokens == 0 || shape.tokens != largest.tokens; });
      shapes.push_back(largest);
    }
    for (std::size_t i = 0; i < shapes.size(); ++i) {
      const CallShape<Op>& shape = shapes[i];
      cases.push_back({round_of(i, shapes.size()),
                       number,
                       shape.work,
                       {std::string(Op::name), to_string(use.spec), std::string(use.kernel->name()), shape.name,
                        [shape, kernel = use.kernel, oracle](CheckBench& bench) {
                          return check_calls<Op>(bench, shape, *kernel, *oracle);
                        },
                        is_reduced, shape.work}});
    }
  }
}

/// What two uses share that are checked once.
std::string key_of(const KernelRegistry::AnyUse& any) {
  return std::visit(
      []<class Op>(const KernelUse<Op>& use) {
        return fmt::format("{} {} {}", Op::name, to_string(use.spec), use.kernel->name());
      },
      any);
}

}  // namespace

std::vector<KernelCase> cases_of(const std::vector<KernelRegistry::AnyUse>& uses, const KernelRegistry& registry,
                                 const DeviceInfo& device, const CaseOptions& options) {
  std::vector<OrderedCase> ordered;
  std::set<std::string> known;
  KnownKernels known_kernels;
  for (const KernelRegistry::AnyUse& any : uses) {
    if (known.insert(key_of(any)).second) {
      std::visit(
          [&]<class Op>(const KernelUse<Op>& use) { add_cases<Op>(use, registry, device, options, known_kernels, ordered); },
          any);
    }
  }
  std::ranges::stable_sort(ordered, {}, [](const OrderedCase& one) { return std::tuple(one.round, one.use, one.work); });
  std::vector<KernelCase> cases;
  for (OrderedCase& one : ordered) {
    cases.push_back(std::move(one.one));
  }
  return cases;
}

ShapeLimits limits_of(const StepShape& step) {
  ShapeLimits limits{.max_tokens = 0, .max_step_tokens = 0, .max_kv_len = 0, .step = step};
  for (const SequenceShape& sequence : step.sequences) {
    limits.max_tokens += sequence.q_len;
    limits.max_kv_len = std::max<std::int64_t>(limits.max_kv_len, sequence.kv_len);
  }
  limits.max_step_tokens = limits.max_tokens;
  return limits;
}

std::vector<std::string> unchecked_operations(const std::vector<KernelRegistry::AnyUse>& uses) {
  std::set<std::string> names;
  for (const KernelRegistry::AnyUse& any : uses) {
    std::visit(
        [&]<class Op>(const KernelUse<Op>&) {
          if (!CheckedOperations::has<Op>) {
            names.insert(std::string(Op::name));
          }
        },
        any);
  }
  return {names.begin(), names.end()};
}

}  // namespace rocmforge
