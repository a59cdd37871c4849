#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <variant>
#include <vector>

#include "base/error.h"
#include "base/thread_pool.h"
#include "device/device.h"

namespace rocmforge {

/// Whether a kernel supports a Spec on a device: yes, or no with the reason ("head_dim 72 is not one of 64, 80, 96, 128,
/// 256").
struct Support {
  bool ok = true;
  std::string reason;

  static Support yes() { return {}; }
  static Support no(std::string why) { return {false, std::move(why)}; }
};

/// Of the kernels that support a Spec, the one of the highest priority is chosen.
enum class KernelPriority : std::uint8_t {
  reference = 0,      ///< scalar, in double precision: the others are compared with it
  check = 1,          ///< the same on a GPU, one output element a thread; chosen only by name
  last_resort = 5,    ///< correct but slow; used where no other kernel supports the Spec
  portable = 10,      ///< any device of its kind
  family = 20,        ///< devices with vector instructions or matrix cores, or the vendor's library
  specialised = 30,   ///< the widest instruction set, or one kind of step
  architecture = 40,  ///< written for one GPU architecture
};

/// Whether kernels of this priority exist so that others are compared with them: their speed means nothing.
constexpr bool is_oracle(KernelPriority priority) { return priority <= KernelPriority::check; }

/// What a kernel runs on. CPU kernels use the pool and return when they are done; GPU kernels put their work on the stream,
/// and every pointer of their Args is a device address.
struct ExecutionContext {
  ThreadPool* pool = nullptr;
  Stream* stream = nullptr;  ///< null on the CPU
};

/// One implementation of the operation `Op`, which names a Spec (shapes and types known when a model loads) and an Args
/// (pointers and sizes of one call): what the registry asks it. Implementations are immutable and may be shared by threads.
template <class Op>
class RegisteredKernel {
 public:
  virtual ~RegisteredKernel() = default;
  [[nodiscard]] virtual std::string_view name() const = 0;
  [[nodiscard]] virtual DeviceKind device() const = 0;
  [[nodiscard]] virtual KernelPriority priority() const = 0;
  [[nodiscard]] virtual Support supports(const typename Op::Spec& spec, const DeviceInfo& device) const = 0;
};

/// The interface of most operations' kernels.
template <class Op>
class OpKernel : public RegisteredKernel<Op> {
 public:
  /// What a call with up to `tokens` rows needs as Args::workspace, where Args has one.
  [[nodiscard]] virtual std::size_t workspace_bytes(const typename Op::Spec& /*spec*/, std::int64_t /*tokens*/) const {
    return 0;
  }
  virtual void run(const typename Op::Spec& spec, const typename Op::Args& args, ExecutionContext& context) const = 0;
};

/// Why a kernel was not chosen: its own reason, or the kernel that was preferred.
struct Refusal {
  std::string kernel;
  std::string reason;
};

/// The interface an operation's kernels implement: `Op::KernelInterface` where it declares one, else OpKernel<Op>.
template <class Op>
struct KernelInterfaceOf {
  using type = OpKernel<Op>;
};
template <class Op>
requires requires { typename Op::KernelInterface; }
struct KernelInterfaceOf<Op> {
  using type = typename Op::KernelInterface;
};

/// A kernel and the work that it was chosen for.
template <class Op>
struct KernelUse {
  typename Op::Spec spec;
  const typename KernelInterfaceOf<Op>::type* kernel = nullptr;
};

/// A kernel that must not be chosen, and why.
struct AvoidedKernel {
  std::string operation;  ///< "matmul"; empty for every operation
  std::string kernel;     ///< the name, or that of a family (is_named)
  std::string reason;
};

/// The kernels that support a Spec, best first, and the refusals of the others.
template <class Op>
struct Candidates {
  std::vector<const typename KernelInterfaceOf<Op>::type*> able;
  std::vector<Refusal> refusals;
  bool forced_exists = true;  ///< false: no kernel has the name asked for
};

template <class Op>
struct Choice {
  const typename KernelInterfaceOf<Op>::type* kernel = nullptr;
  std::vector<Refusal> refusals;
};

/// Whether a kernel has the wanted name or is a variant of it: "cpu" also matches "cpu_avx2".
inline bool is_named(std::string_view kernel, std::string_view wanted) {
  return kernel == wanted || (kernel.starts_with(wanted) && kernel.substr(wanted.size()).starts_with('_'));
}

/// The first of `avoided` that is this kernel of this operation; null when there is none.
const AvoidedKernel* find_avoided(const std::vector<AvoidedKernel>& avoided, std::string_view operation,
                                  std::string_view kernel);

/// The exception for when every candidate refused. A non-empty `unknown` is a name that no kernel has.
Error nobody_serves(std::string_view operation, const std::string& spec, const std::vector<Refusal>& refusals,
                    std::string_view unknown);

template <class Op>
Error nobody_serves(const typename Op::Spec& spec, const Candidates<Op>& found, std::string_view forced) {
  return nobody_serves(Op::name, to_string(spec), found.refusals, found.forced_exists ? std::string_view() : forced);
}

/// All kernels of the program, by operation. Filled once by `register_all_kernels`, explicit and in one place.
template <class... Ops>
class KernelRegistryOf {
 public:
  /// A use of any operation's kernel.
  using AnyUse = std::variant<KernelUse<Ops>...>;

  template <class Op>
  void add(std::unique_ptr<typename KernelInterfaceOf<Op>::type> kernel) {
    entries<Op>().push_back(std::move(kernel));
  }

  template <class Op>
  [[nodiscard]] const auto& all() const {
    return std::get<List<Op>>(lists_).entries;
  }

  /// visit(operation, kernel) for every kernel of every operation.
  template <class Visit>
  void for_each(const Visit& visit) const {
    (std::ranges::for_each(all<Ops>(), [&](const auto& kernel) { visit(Ops::name, *kernel); }), ...);
  }

  /// The kernel is refused from now on.
  void avoid(AvoidedKernel kernel) { avoided_.push_back(std::move(kernel)); }
  [[nodiscard]] const std::vector<AvoidedKernel>& avoided() const { return avoided_; }

  /// Kernels of a higher priority are refused from now on, with this reason.
  void allow_up_to(KernelPriority most, std::string reason) {
    most_ = most;
    reason_of_most_ = std::move(reason);
  }

  /// The kernels that support `spec` on `device`, with a reason for every other one of that device kind. A non-empty
  /// `forced` names the only kernel, or family of kernels, that may be chosen.
  template <class Op>
  [[nodiscard]] Candidates<Op> candidates(const typename Op::Spec& spec, const DeviceInfo& device,
                                          std::string_view forced = {}) const {
    Candidates<Op> found;
    found.forced_exists = forced.empty();
    for (const auto& kernel : all<Op>()) {
      if (kernel->device() != device.kind) {
        continue;
      }
      if (!forced.empty() && !is_named(kernel->name(), forced)) {
        found.refusals.push_back({std::string(kernel->name()), std::string("'").append(forced) + "' was asked for"});
        continue;
      }
      found.forced_exists = true;
      if (kernel->priority() == KernelPriority::check && forced.empty()) {
        continue;
      }
      if (const AvoidedKernel* avoided = find_avoided(avoided_, Op::name, kernel->name())) {
        found.refusals.push_back({std::string(kernel->name()), avoided->reason});
        continue;
      }
      if (kernel->priority() > most_) {
        found.refusals.push_back({std::string(kernel->name()), reason_of_most_});
        continue;
      }
      if (const Support support = kernel->supports(spec, device); !support.ok) {
        found.refusals.push_back({std::string(kernel->name()), support.reason});
      } else {
        found.able.push_back(kernel.get());
      }
    }
    std::ranges::stable_sort(found.able, std::ranges::greater(), [](const auto* kernel) { return kernel->priority(); });
    return found;
  }

  /// The best of the candidates. Throws Error, listing every refusal, when there is none.
  template <class Op>
  [[nodiscard]] Choice<Op> choose(const typename Op::Spec& spec, const DeviceInfo& device,
                                  std::string_view forced = {}) const {
    Candidates<Op> found = candidates<Op>(spec, device, forced);
    if (found.able.empty()) {
      throw nobody_serves(spec, found, forced);
    }
    Choice<Op> choice{found.able[0], std::move(found.refusals)};
    for (const auto* kernel : found.able) {
      if (kernel != choice.kernel) {
        choice.refusals.push_back({std::string(kernel->name()), std::string(choice.kernel->name()) + " is preferred"});
      }
    }
    return choice;
  }

 private:
  template <class Op>
  struct List {
    std::vector<std::unique_ptr<typename KernelInterfaceOf<Op>::type>> entries;
  };
  template <class Op>
  auto& entries() {
    return std::get<List<Op>>(lists_).entries;
  }

  std::tuple<List<Ops>...> lists_;
  std::vector<AvoidedKernel> avoided_;
  KernelPriority most_ = KernelPriority::architecture;
  std::string reason_of_most_;
};

}  // namespace rocmforge
