// Layers with a recurrent state.

#include "checks/inputs.h"
#include "checks/problem.h"

namespace rocmforge {
namespace {

/// Kernels sum the rows of a chunk in f32: where large terms cancel, their roundings are what remains.
constexpr double recurrent_tolerance = 5e-5;

std::vector<RowsOfSequences> rows_of_limits(const ShapeLimits& limits) {
  std::vector<RowsOfSequences> all = rows_of_sequences(limits.max_tokens);
  if (limits.step) {
    std::erase_if(all, [&](const RowsOfSequences& one) { return sum_of(one.rows) >= limits.max_tokens; });
    RowsOfSequences& step = all.emplace_back(RowsOfSequences{limits.step->name, {}});
    for (const SequenceShape& sequence : limits.step->sequences) {
      step.rows.push_back(sequence.q_len);
    }
  }
  return all;
}

template <class Op, class Make>
std::vector<CallShape<Op>> shapes_by_rows(const ShapeLimits& limits, double work, Make make) {
  std::vector<CallShape<Op>> shapes;
  for (const RowsOfSequences& rows : rows_of_limits(limits)) {
    shapes.push_back({rows.name, work * static_cast<double>(sum_of(rows.rows)), [make, rows] { return make(rows.rows); }});
  }
  return shapes;
}

CallProblem<CausalConv> conv_problem(const CausalConv::Spec& spec, const std::vector<std::int32_t>& rows) {
  CallProblem<CausalConv> problem;
  PooledRandom random(41);
  const StateStep step = state_step(rows, spec.state_elems(), 1.0f, random);
  const BatchArrays batch(problem.arrays, step.plan);
  const std::int64_t tokens = sum_of(rows);
  const auto x = problem.arrays.input("x", random.normals(tokens * spec.input_width()));
  const auto weight = problem.arrays.input("weight", random.normals(spec.channels * spec.taps));
  const auto bias = spec.gates ? Slot<float>() : problem.arrays.input("bias", random.normals(spec.channels));
  const auto states = problem.arrays.updated("states", step.states, spec.channels);
  const auto out = problem.arrays.output<float>("out", tokens, spec.channels);
  problem.tolerance = recurrent_tolerance;
  problem.bytes = float_bytes(tokens * (spec.input_width() + spec.channels));
  problem.bind = bind_args<CausalConv>(spec, [=](const auto&, PlacedArrays& place) {
    return CausalConv::Args{.x = place.at(x),
                            .x_stride = spec.input_width(),
                            .weight = place.at(weight),
                            .bias = place.at(bias),
                            .states = states_at(place, states, step, spec.state_elems()),
                            .batch = batch.at(place),
                            .out = place.at(out)};
  });
  return problem;
}

std::vector<float> negative(std::vector<float> values) {
  for (float& value : values) {
    value = -0.02f - 0.2f * value * value;
  }
  return values;
}

CallProblem<SsmScan> scan_problem(const SsmScan::Spec& spec, const std::vector<std::int32_t>& rows) {
  CallProblem<SsmScan> problem;
  PooledRandom random(42);
  const StateStep step = state_step(rows, spec.state_elems(), 0.5f, random);
  const BatchArrays batch(problem.arrays, step.plan);
  const std::int64_t tokens = sum_of(rows);
  const std::int64_t stride = spec.inner() + spec.heads;
  const auto x = problem.arrays.input("x", random.normals(tokens * spec.input_width()));
  const auto gates = problem.arrays.input("z and dt", random.normals(tokens * stride));
  const auto a = problem.arrays.input("a", negative(random.normals(spec.heads)));
  const auto d = problem.arrays.input("d", random.normals(spec.heads));
  const auto dt_bias = problem.arrays.input("dt_bias", random.normals(spec.heads));
  const auto states = problem.arrays.updated("states", step.states, spec.state_size);
  const auto out = problem.arrays.output<float>("out", tokens, spec.inner());
  problem.tolerance = recurrent_tolerance;
  problem.bytes = float_bytes(tokens * (spec.input_width() + stride + spec.inner()) +
                              2 * static_cast<std::int64_t>(rows.size()) * spec.state_elems());
  problem.bind = bind_args<SsmScan>(spec, [=](const OpKernel<SsmScan>& kernel, PlacedArrays& place) {
    const float* z = place.at(gates);
    return SsmScan::Args{.x = place.at(x),
                         .z = z,
                         .dt = z + spec.inner(),
                         .stride = stride,
                         .a = place.at(a),
                         .d = place.at(d),
                         .dt_bias = place.at(dt_bias),
                         .states = states_at(place, states, step, spec.state_elems()),
                         .batch = batch.at(place),
                         .out = place.at(out),
                         .workspace = place.scratch(kernel.workspace_bytes(spec, tokens))};
  });
  return problem;
}

CallProblem<SelectiveScan> selective_problem(const SelectiveScan::Spec& spec, const std::vector<std::int32_t>& rows) {
  CallProblem<SelectiveScan> problem;
  PooledRandom random(44);
  const StateStep step = state_step(rows, spec.state_elems(), 0.5f, random);
  const BatchArrays batch(problem.arrays, step.plan);
  const std::int64_t tokens = sum_of(rows);
  const std::int64_t stride = 2 * spec.channels;
  const auto x = problem.arrays.input("x", random.normals(tokens * spec.channels));
  const auto gates = problem.arrays.input("dt and z", random.normals(tokens * stride));
  const auto bc = problem.arrays.input("B and C", random.normals(tokens * 2 * spec.state_size));
  const auto a = problem.arrays.input("a", negative(random.normals(spec.state_elems())));
  const auto d = problem.arrays.input("d", random.normals(spec.channels));
  const auto states = problem.arrays.updated("states", step.states, spec.state_size);
  const auto out = problem.arrays.output<float>("out", tokens, spec.channels);
  problem.tolerance = recurrent_tolerance;
  problem.bytes = float_bytes(tokens * (2 * spec.channels + stride + 2 * spec.state_size) +
                              2 * static_cast<std::int64_t>(rows.size()) * spec.state_elems());
  problem.bind = bind_args<SelectiveScan>(spec, [=](const auto&, PlacedArrays& place) {
    const float* dt = place.at(gates);
    const float* b = place.at(bc);
    return SelectiveScan::Args{.x = place.at(x),
                               .z = dt + spec.channels,
                               .dt = dt,
                               .stride = stride,
                               .b = b,
                               .c = b + spec.state_size,
                               .bc_stride = 2 * spec.state_size,
                               .a = place.at(a),
                               .d = place.at(d),
                               .states = states_at(place, states, step, spec.state_elems()),
                               .batch = batch.at(place),
                               .out = place.at(out)};
  });
  return problem;
}

CallProblem<GatedDeltaNet> delta_problem(const GatedDeltaNet::Spec& spec, const std::vector<std::int32_t>& rows) {
  CallProblem<GatedDeltaNet> problem;
  PooledRandom random(43);
  const StateStep step = state_step(rows, spec.state_elems(), 0.1f, random);
  const BatchArrays batch(problem.arrays, step.plan);
  const std::int64_t tokens = sum_of(rows);
  const std::int64_t gate_stride = spec.value_heads * (1 + spec.gates_of_head());
  const auto qkv = problem.arrays.input("qkv", random.normals(tokens * spec.input_width()));
  const auto gates = problem.arrays.input("beta and alpha", random.normals(tokens * gate_stride));
  std::vector<float> rates = negative(random.normals(spec.value_heads));
  if (spec.decay_floor < 0.0f) {
    std::ranges::transform(rates, rates.begin(), std::negate<>{});
  }
  const auto rate = problem.arrays.input("rate", std::move(rates));
  const auto step_bias = problem.arrays.input("step_bias", random.normals(spec.value_heads * spec.gates_of_head()));
  const auto states = problem.arrays.updated("states", step.states, spec.key_dim);
  const auto out = problem.arrays.output<float>("out", tokens, spec.values());
  problem.tolerance = recurrent_tolerance;
  problem.bytes = float_bytes(tokens * (spec.input_width() + gate_stride + spec.values()) +
                              2 * static_cast<std::int64_t>(rows.size()) * spec.state_elems());
  problem.bind = bind_args<GatedDeltaNet>(spec, [=](const OpKernel<GatedDeltaNet>& kernel, PlacedArrays& place) {
    const float* beta = place.at(gates);
    return GatedDeltaNet::Args{.qkv = place.at(qkv),
                               .qkv_stride = spec.input_width(),
                               .beta = beta,
                               .alpha = beta + spec.value_heads,
                               .gate_stride = gate_stride,
                               .rate = place.at(rate),
                               .step_bias = place.at(step_bias),
                               .states = states_at(place, states, step, spec.state_elems()),
                               .batch = batch.at(place),
                               .out = place.at(out),
                               .out_stride = spec.values(),
                               .workspace = place.scratch(kernel.workspace_bytes(spec, tokens))};
  });
  return problem;
}

}  // namespace

template <>
std::vector<CallShape<CausalConv>> shapes_of(const KernelUse<CausalConv>& use, const ShapeLimits& limits) {
  return shapes_by_rows<CausalConv>(
      limits, static_cast<double>(use.spec.channels * use.spec.taps),
      [spec = use.spec](const std::vector<std::int32_t>& rows) { return conv_problem(spec, rows); });
}

template <>
std::vector<CallShape<SsmScan>> shapes_of(const KernelUse<SsmScan>& use, const ShapeLimits& limits) {
  return shapes_by_rows<SsmScan>(
      limits, 3.0 * static_cast<double>(use.spec.state_elems()),
      [spec = use.spec](const std::vector<std::int32_t>& rows) { return scan_problem(spec, rows); });
}

template <>
std::vector<CallShape<SelectiveScan>> shapes_of(const KernelUse<SelectiveScan>& use, const ShapeLimits& limits) {
  return shapes_by_rows<SelectiveScan>(
      limits, 6.0 * static_cast<double>(use.spec.state_elems()),
      [spec = use.spec](const std::vector<std::int32_t>& rows) { return selective_problem(spec, rows); });
}

template <>
std::vector<CallShape<GatedDeltaNet>> shapes_of(const KernelUse<GatedDeltaNet>& use, const ShapeLimits& limits) {
  return shapes_by_rows<GatedDeltaNet>(
      limits, 4.0 * static_cast<double>(use.spec.state_elems()),
      [spec = use.spec](const std::vector<std::int32_t>& rows) { return delta_problem(spec, rows); });
}

}  // namespace rocmforge
