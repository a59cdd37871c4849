#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "base/error.h"
#include "base/thread_pool.h"
#include "device/device.h"

namespace rocmforge {

/// A kernel's answer to "can you do this here?": yes, or no with the reason ("head_dim 72 is not one of 64, 80, 96, 128,
/// 256").
struct Support {
  bool ok = true;
  std::string reason;

  static Support yes() { return {}; }
  static Support no(std::string why) { return {false, std::move(why)}; }
};

/// What a kernel runs on. CPU kernels use the pool and return when they are done; GPU kernels put their work on the stream,
/// and every pointer of their Args is a device address.
struct ExecutionContext {
  ThreadPool* pool = nullptr;
  Stream* stream = nullptr;  ///< null on the CPU
};

/// One implementation of the operation `Op`, which names a Spec (shapes and types known when a model loads) and an Args
/// (pointers and sizes of one call). Implementations are immutable and may be shared by threads.
template <class Op>
class OpKernel {
 public:
  virtual ~OpKernel() = default;
  [[nodiscard]] virtual std::string_view name() const = 0;
  [[nodiscard]] virtual DeviceKind device() const = 0;
  /// Among the kernels that can, the highest wins. The scalar reference has 0.
  [[nodiscard]] virtual int priority() const = 0;
  [[nodiscard]] virtual Support supports(const typename Op::Spec& spec, const DeviceInfo& device) const = 0;
  virtual void run(const typename Op::Spec& spec, const typename Op::Args& args, ExecutionContext& context) const = 0;
};

/// Why a kernel was not chosen: its own refusal, or the kernel that was preferred.
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

template <class Op>
struct Choice {
  const typename KernelInterfaceOf<Op>::type* kernel = nullptr;
  std::vector<Refusal> refusals;
};

/// Whether a kernel's name is the one asked for, or one of its variants: "cpu" means "cpu_avx2" too.
inline bool is_named(std::string_view kernel, std::string_view wanted) {
  return kernel == wanted || (kernel.starts_with(wanted) && kernel.substr(wanted.size()).starts_with('_'));
}

/// All kernels of the program, by operation. Filled once by `register_all_kernels`, explicit and in one place.
template <class... Ops>
class KernelRegistryOf {
 public:
  template <class Op>
  void add(std::unique_ptr<typename KernelInterfaceOf<Op>::type> kernel) {
    entries<Op>().push_back(std::move(kernel));
  }

  template <class Op>
  [[nodiscard]] const auto& all() const {
    return std::get<List<Op>>(lists_).entries;
  }

  /// The best kernel that supports `spec` on `device`, with a reason for every other one of that device kind.
  /// A non-empty `forced` names the only kernel, or family of them, that may serve. Throws Error, listing every refusal,
  /// when none can.
  template <class Op>
  [[nodiscard]] Choice<Op> choose(const typename Op::Spec& spec, const DeviceInfo& device,
                                  std::string_view forced = {}) const {
    Choice<Op> choice;
    std::vector<const typename KernelInterfaceOf<Op>::type*> able;
    bool forced_exists = forced.empty();
    for (const auto& kernel : all<Op>()) {
      if (kernel->device() != device.kind) {
        continue;
      }
      forced_exists = forced_exists || is_named(kernel->name(), forced);
      if (!forced.empty() && !is_named(kernel->name(), forced)) {
        choice.refusals.push_back({std::string(kernel->name()), std::string("'").append(forced) + "' was asked for"});
        continue;
      }
      if (const Support support = kernel->supports(spec, device); !support.ok) {
        choice.refusals.push_back({std::string(kernel->name()), support.reason});
      } else {
        able.push_back(kernel.get());
        if (choice.kernel == nullptr || kernel->priority() > choice.kernel->priority()) {
          choice.kernel = kernel.get();
        }
      }
    }
    for (const auto* kernel : able) {
      if (kernel != choice.kernel) {
        choice.refusals.push_back({std::string(kernel->name()), std::string(choice.kernel->name()) + " is preferred"});
      }
    }
    if (choice.kernel == nullptr) {
      std::string message = std::string("no kernel for ") + std::string(Op::name) + " " + to_string(spec);
      if (!forced_exists) {
        message += "; there is none named '" + std::string(forced) + "'";
      }
      for (const Refusal& refusal : choice.refusals) {
        message += "; " + refusal.kernel + ": " + refusal.reason;
      }
      throw Error(message);
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
};

}  // namespace rocmforge
