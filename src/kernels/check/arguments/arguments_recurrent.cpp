#include <fmt/format.h>

#include "kernels/check/arguments/argument_checks.h"
#include "kernels/check/arguments/arguments.h"

namespace rocmforge {
namespace {

/// The slots of every sequence lie in memory; see BatchPlan::validate for what they must not share.
void check_states(std::string_view operation, const StateView& states, const RaggedBatch& batch, std::int64_t state_bytes,
                  DeviceKind device) {
  require_pointer(states.data, operation, "states.data");
  require_pointer(batch.states, operation, "batch.states");
  require_pointer(batch.query_offsets, operation, "batch.query_offsets");
  require_pointer(batch.sequence_of, operation, "batch.sequence_of");
  require_least(batch.num_tokens, 0, operation, "batch.num_tokens");
  require(states.slot_stride >= state_bytes, "{}: slot_stride {} is less than the {} bytes of a state", operation,
          states.slot_stride, state_bytes);
  if (device != DeviceKind::cpu) {
    return;
  }
  for (std::int32_t s = 0; s < batch.num_sequences; ++s) {
    const StateSlots& slots = batch.states[s];
    for (const std::int32_t slot : {slots.read, slots.write, slots.keep}) {
      require(slot >= -1 && slot < states.num_slots, "{}: sequence {} names slot {} of {}", operation, s, slot,
              states.num_slots);
    }
    require(slots.read < 0 || slots.read != slots.write, "{}: sequence {} reads slot {} and writes it", operation, s,
            slots.read);
    const std::int32_t rows = batch.query_offsets[s + 1] - batch.query_offsets[s];
    require(slots.keep < 0 || (slots.keep_rows > 0 && slots.keep_rows <= rows),
            "{}: sequence {} keeps the state behind {} rows of {}", operation, s, slots.keep_rows, rows);
  }
}

}  // namespace

void check_arguments(const CausalConv::Spec& spec, const CausalConv::Args& args, DeviceKind device) {
  constexpr std::string_view operation = CausalConv::name;
  require_pointer(args.x, operation, "x");
  require_pointer(args.weight, operation, "weight");
  require_pointer(args.out, operation, "out");
  require_least(args.x_stride, spec.input_width(), operation, "x_stride");
  require(args.out != args.x, "{}: out is x", operation);
  check_states(operation, args.states, args.batch, spec.state_elems() * static_cast<std::int64_t>(sizeof(float)), device);
}

Support check_spec(const CausalConv::Spec& spec) {
  if (spec.channels <= 0) {
    return Support::no(fmt::format("{} channels", spec.channels));
  }
  return spec.taps >= 2 ? Support::yes() : Support::no(fmt::format("a convolution of {} taps", spec.taps));
}

void check_arguments(const SsmScan::Spec& spec, const SsmScan::Args& args, DeviceKind device) {
  constexpr std::string_view operation = SsmScan::name;
  require_pointer(args.x, operation, "x");
  require_pointer(args.z, operation, "z");
  require_pointer(args.dt, operation, "dt");
  require_pointer(args.a, operation, "a");
  require_pointer(args.d, operation, "d");
  require_pointer(args.dt_bias, operation, "dt_bias");
  require_pointer(args.out, operation, "out");
  require(args.out != args.x && args.out != args.z && args.out != args.dt, "{}: out is an input", operation);
  require(args.stride >= spec.inner(), "{}: stride {} is less than the {} columns of z", operation, args.stride,
          spec.inner());
  check_states(operation, args.states, args.batch, spec.state_elems() * static_cast<std::int64_t>(sizeof(float)), device);
}

Support check_spec(const SsmScan::Spec& spec) {
  if (spec.heads <= 0 || spec.head_dim <= 0 || spec.state_size <= 0) {
    return Support::no(fmt::format("{} heads of {} with a state of {}", spec.heads, spec.head_dim, spec.state_size));
  }
  return spec.groups > 0 && spec.heads % spec.groups == 0
             ? Support::yes()
             : Support::no(fmt::format("{} heads in {} groups", spec.heads, spec.groups));
}

void check_arguments(const SelectiveScan::Spec& spec, const SelectiveScan::Args& args, DeviceKind device) {
  constexpr std::string_view operation = SelectiveScan::name;
  require_pointer(args.x, operation, "x");
  require_pointer(args.z, operation, "z");
  require_pointer(args.dt, operation, "dt");
  require_pointer(args.b, operation, "b");
  require_pointer(args.c, operation, "c");
  require_pointer(args.a, operation, "a");
  require_pointer(args.d, operation, "d");
  require_pointer(args.out, operation, "out");
  require_least(args.stride, spec.channels, operation, "stride");
  require_least(args.bc_stride, spec.state_size, operation, "bc_stride");
  require(args.out != args.x && args.out != args.z && args.out != args.dt, "{}: out is an input", operation);
  check_states(operation, args.states, args.batch, spec.state_elems() * static_cast<std::int64_t>(sizeof(float)), device);
}

Support check_spec(const SelectiveScan::Spec& spec) {
  return spec.channels > 0 && spec.state_size > 0
             ? Support::yes()
             : Support::no(fmt::format("{} channels with a state of {}", spec.channels, spec.state_size));
}

void check_arguments(const GatedDeltaNet::Spec& spec, const GatedDeltaNet::Args& args, DeviceKind device) {
  constexpr std::string_view operation = GatedDeltaNet::name;
  require_pointer(args.qkv, operation, "qkv");
  require_pointer(args.beta, operation, "beta");
  require_pointer(args.alpha, operation, "alpha");
  require_pointer(args.rate, operation, "rate");
  require_pointer(args.step_bias, operation, "step_bias");
  require_pointer(args.out, operation, "out");
  require_least(args.qkv_stride, spec.input_width(), operation, "qkv_stride");
  require_least(args.gate_stride, spec.value_heads * spec.gates_of_head(), operation, "gate_stride");
  require_least(args.out_stride, spec.values(), operation, "out_stride");
  require(args.out != args.qkv && args.out != args.beta && args.out != args.alpha, "{}: out is what it reads", operation);
  check_states(operation, args.states, args.batch, spec.state_elems() * static_cast<std::int64_t>(sizeof(float)), device);
}

Support check_spec(const GatedDeltaNet::Spec& spec) {
  if (spec.key_heads <= 0 || spec.value_heads <= 0 || spec.value_heads % spec.key_heads != 0) {
    return Support::no(fmt::format("{} value heads for {} key heads", spec.value_heads, spec.key_heads));
  }
  if (!(spec.decay_floor <= 0.0f) || (spec.decay_floor < 0.0f && !spec.decays_of_keys)) {
    return Support::no(fmt::format("a floor of {} under decays of {}", spec.decay_floor,
                                   spec.decays_of_keys ? "keys" : "heads, which have none"));
  }
  return spec.key_dim > 0 && spec.value_dim > 0
             ? Support::yes()
             : Support::no(fmt::format("heads of {} keys and {} values", spec.key_dim, spec.value_dim));
}

void check_arguments(const OutputGate::Spec& spec, const OutputGate::Args& args) {
  constexpr std::string_view operation = OutputGate::name;
  require_pointer(args.x, operation, "x");
  require_pointer(args.gate, operation, "gate");
  require_pointer(args.out, operation, "out");
  require(spec.norm == (args.weight != nullptr), "{}: {} weight of a norm", operation, spec.norm ? "no" : "a");
  require_least(args.tokens, 0, operation, "tokens");
  require_least(args.x_stride, spec.width(), operation, "x_stride");
  require_least(args.gate_stride, spec.gates(), operation, "gate_stride");
  require(args.out != args.gate && (args.out != args.x || args.x_stride == spec.width()), "{}: out is what it reads",
          operation);
}

Support check_spec(const OutputGate::Spec& spec) {
  return spec.heads > 0 && spec.dim > 0 ? Support::yes()
                                        : Support::no(fmt::format("{} heads of {} elements", spec.heads, spec.dim));
}

}  // namespace rocmforge
