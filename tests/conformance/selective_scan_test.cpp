// Expected values come from the definition, over whole sequences in double: the reference is tested along with the kernels
// of the device, and the state between steps along with the outputs.

#include <algorithm>
#include <cmath>

#include "conformance/harness.h"
#include "kernels/check/arguments/arguments.h"

namespace rocmforge::test::selective_scan_test {
namespace {

/// The number of rows before a step, and of the rows that the step computes.
struct Part {
  std::int32_t before = 0;
  std::int32_t rows = 0;
  std::int32_t keep_rows = 0;  ///< the state behind so many of them is kept too
};

/// The inputs of a run of rows.
struct Rows {
  std::vector<float> x;        ///< [rows, channels]
  std::vector<float> dt_z;     ///< [rows, 2, channels]
  std::vector<float> b_and_c;  ///< [rows, 2, state_size]

  void add(const Rows& other, std::int64_t first, std::int64_t count, const SelectiveScan::Spec& spec) {
    const auto append = [&](std::vector<float>& to, const std::vector<float>& from, std::int64_t width) {
      to.insert(to.end(), from.begin() + first * width, from.begin() + (first + count) * width);
    };
    append(x, other.x, spec.channels);
    append(dt_z, other.dt_z, 2 * spec.channels);
    append(b_and_c, other.b_and_c, 2 * spec.state_size);
  }
};

Rows random_rows(const SelectiveScan::Spec& spec, std::int64_t rows, float dt, Random& random) {
  Rows made{random.normals(rows * spec.channels), random.normals(rows * 2 * spec.channels),
            random.normals(rows * 2 * spec.state_size)};
  for (std::int64_t i = 0; i < rows * 2 * spec.channels; ++i) {
    made.dt_z[static_cast<std::size_t>(i)] += i % (2 * spec.channels) < spec.channels ? dt : 0.0f;
  }
  return made;
}

struct Weights {
  std::vector<float> a;  ///< [channels, state_size]
  std::vector<float> d;  ///< [channels]
};

Weights make_weights(const SelectiveScan::Spec& spec, Random& random) {
  Weights weights{random.uniforms(spec.state_elems(), 0.2f, 1.5f), random.normals(spec.channels)};
  std::ranges::transform(weights.a, weights.a.begin(), [](float value) { return -value; });
  return weights;
}

/// Computes row `t` and appends its output.
void advance(const SelectiveScan::Spec& spec, const Weights& weights, const Rows& rows, std::int64_t t,
             std::vector<double>& state, std::vector<float>& out) {
  const auto at = [](const std::vector<float>& values, std::int64_t i) {
    return double{values[static_cast<std::size_t>(i)]};
  };
  for (std::int64_t channel = 0; channel < spec.channels; ++channel) {
    const double step = std::log1p(std::exp(at(rows.dt_z, t * 2 * spec.channels + channel)));
    const double z = at(rows.dt_z, (t * 2 + 1) * spec.channels + channel);
    const double x = at(rows.x, t * spec.channels + channel);
    double sum = at(weights.d, channel) * x;
    for (std::int64_t n = 0; n < spec.state_size; ++n) {
      double& element = state[static_cast<std::size_t>(channel * spec.state_size + n)];
      const double decay = std::exp(step * at(weights.a, channel * spec.state_size + n));
      element = decay * element + step * x * at(rows.b_and_c, t * 2 * spec.state_size + n);
      sum += element * at(rows.b_and_c, (t * 2 + 1) * spec.state_size + n);
    }
    out.push_back(static_cast<float>(sum * z / (1.0 + std::exp(-z))));
  }
}

struct Problem {
  SelectiveScan::Spec spec;
  Weights weights;
  BatchPlan plan{};
  Rows rows{};                    ///< of the step
  std::vector<float> expected{};  ///< of its rows, without padding
  std::vector<float> memory{};    ///< of the slots before it, NaN where nothing is known
  std::vector<float> after{};     ///< likewise, NaN where nothing is written
  std::int32_t num_slots = 0;
};

constexpr std::int64_t elems_before = 4;  ///< of a slot: the operation's state is not the only one

std::int64_t slot_elems(const SelectiveScan::Spec& spec) { return elems_before + spec.state_elems() + 4; }

void put_state(Problem& problem, std::vector<float>& memory, std::int32_t slot, const std::vector<double>& state) {
  std::ranges::transform(state, memory.begin() + slot * slot_elems(problem.spec) + elems_before,
                         [](double value) { return static_cast<float>(value); });
}

/// Each sequence has three slots: one that it reads, one that it writes, one that keeps.
void add_sequence(Problem& problem, const Part& part, float dt, Random& random) {
  const SelectiveScan::Spec& spec = problem.spec;
  const std::int32_t slot = problem.num_slots;
  const Rows all = random_rows(spec, part.before + part.rows, dt, random);
  std::vector<double> state(static_cast<std::size_t>(spec.state_elems()), 0.0);
  std::vector<float> before;
  for (std::int32_t t = 0; t < part.before + part.rows; ++t) {
    if (t == part.before) {
      put_state(problem, problem.memory, slot, state);
    }
    advance(spec, problem.weights, all, t, state, t < part.before ? before : problem.expected);
    if (part.keep_rows > 0 && t + 1 == part.before + part.keep_rows) {
      put_state(problem, problem.after, slot + 2, state);
    }
  }
  put_state(problem, problem.after, slot + 1, state);
  problem.rows.add(all, part.before, part.rows, spec);
  const std::vector<std::int32_t> zeros(static_cast<std::size_t>(part.before + part.rows), 0);
  problem.plan.add_sequence(std::span(zeros).first(static_cast<std::size_t>(part.rows)), part.before, zeros, false);
  problem.plan.states.push_back({.read = part.before > 0 ? slot : -1,
                                 .write = slot + 1,
                                 .keep = part.keep_rows > 0 ? slot + 2 : -1,
                                 .keep_rows = part.keep_rows});
  problem.num_slots += 3;
}

Problem make_problem(const SelectiveScan::Spec& spec, const std::vector<Part>& parts, std::int32_t padding, float dt) {
  Random random(static_cast<std::uint64_t>(spec.state_elems()));
  Problem problem{.spec = spec, .weights = make_weights(spec, random)};
  problem.memory.assign(3 * parts.size() * static_cast<std::size_t>(slot_elems(spec)), NAN);
  problem.after = problem.memory;
  for (const Part& part : parts) {
    add_sequence(problem, part, dt, random);
  }
  problem.plan.add_padding(padding);
  problem.rows.add(random_rows(spec, padding, 0.0f, random), 0, padding, spec);
  problem.plan.finish();
  return problem;
}

struct Results {
  std::vector<float> out;
  std::vector<float> memory;
};

Results run(const Problem& problem, const OpKernel<SelectiveScan>& kernel) {
  const SelectiveScan::Spec& spec = problem.spec;
  Arena arena(harness().place_of(kernel));
  float* states = arena.in_out(problem.memory);
  const float* dt = arena.in(problem.rows.dt_z);
  const float* b = arena.in(problem.rows.b_and_c);
  const std::int64_t count = problem.plan.num_tokens() * spec.channels;
  auto* out = arena.out<float>(count);
  const StateView slots{reinterpret_cast<std::byte*>(states), slot_elems(spec) * std::int64_t{sizeof(float)},
                        problem.num_slots};
  const SelectiveScan::Args args{.x = arena.in(problem.rows.x),
                                 .z = dt + spec.channels,
                                 .dt = dt,
                                 .stride = 2 * spec.channels,
                                 .b = b,
                                 .c = b + spec.state_size,
                                 .bc_stride = 2 * spec.state_size,
                                 .a = arena.in(problem.weights.a),
                                 .d = arena.in(problem.weights.d),
                                 .states = slots.at(elems_before * std::int64_t{sizeof(float)}),
                                 .batch = arena.batch(problem.plan),
                                 .out = out};
  arena.run([&](ExecutionContext& context) { kernel.run(spec, args, context); });
  return {arena.read(out, count), arena.read(states, static_cast<std::int64_t>(problem.memory.size()))};
}

/// The states that the step writes, and the rest of the memory as it was.
void expect_memory(const Problem& problem, const std::vector<float>& memory) {
  std::vector<float> states;
  std::vector<float> expected;
  std::vector<float> beside;
  std::vector<float> beside_before;
  for (std::size_t i = 0; i < memory.size(); ++i) {
    const bool written = !std::isnan(problem.after[i]);
    (written ? states : beside).push_back(memory[i]);
    (written ? expected : beside_before).push_back(written ? problem.after[i] : problem.memory[i]);
  }
  EXPECT_LE(relative_error(states, expected), 1e-5);
  EXPECT_TRUE(same_bits(beside, beside_before)) << "states, and nothing beside them";
}

void expect_parts(const SelectiveScan::Spec& spec, const std::vector<Part>& parts, std::int32_t padding = 0,
                  float dt = 0.0f) {
  const Problem problem = make_problem(spec, parts, padding, dt);
  harness().for_each_kernel_or_reference<SelectiveScan>(spec, [&](const OpKernel<SelectiveScan>& kernel) {
    const Results results = run(problem, kernel);
    EXPECT_LE(relative_error(std::span(results.out).first(problem.expected.size()), problem.expected), 1e-5);
    EXPECT_TRUE(std::ranges::none_of(results.out, [](float value) { return std::isnan(value); })) << "padding is written";
    expect_memory(problem, results.memory);
  });
}

TEST(SelectiveScanConformance, TinySequencesStartGoOnAndDecode) {
  for (const SelectiveScan::Spec& spec : {SelectiveScan::Spec{5, 16}, {130, 8}, {65, 12}, {3, 32}, {2, 20}}) {
    expect_parts(spec, {{0, 7}, {0, 1}, {4, 1}, {1, 12}, {30, 2}, {2, 1}});
  }
}

TEST(SelectiveScanConformance, TinyStatesBehindAnyRowAreKept) {
  for (const std::int32_t keep_rows : {1, 8, 11}) {
    expect_parts({6, 16}, {{0, 11, keep_rows}, {5, 12, keep_rows}, {3, 1, 1}});
  }
}

TEST(SelectiveScanConformance, TinyPaddingWritesNothing) { expect_parts({8, 16}, {{9, 1}, {0, 1}, {1, 1}}, 5); }

TEST(SelectiveScanConformance, TinyStepsFarFromOne) {
  for (const float dt : {-15.0f, 5.0f, 40.0f, 400.0f}) {
    SCOPED_TRACE(dt);
    expect_parts({4, 16}, {{5, 9, 3}}, 0, dt);
  }
}

TEST(SelectiveScanConformance, ManyRowsAndChannels) { expect_parts({300, 16}, {{0, 70, 64}, {33, 40}, {12, 1}}); }

/// A row has the same bits however its sequence was split into steps.
TEST(SelectiveScanConformance, TinyStepsGiveTheBitsOfTheWhole) {
  const SelectiveScan::Spec spec{9, 16};
  constexpr std::int32_t rows = 20;
  Random random(7);
  const Weights weights = make_weights(spec, random);
  const Rows all = random_rows(spec, rows, 0.0f, random);
  harness().for_each_kernel_or_reference<SelectiveScan>(spec, [&](const OpKernel<SelectiveScan>& kernel) {
    const auto in_steps = [&](std::int32_t rows_each) {
      std::vector<float> out;
      std::vector<float> memory(static_cast<std::size_t>(2 * slot_elems(spec)), 0.0f);
      for (std::int32_t first = 0, step = 0; first < rows; first += rows_each, ++step) {
        Problem problem{.spec = spec, .weights = weights, .memory = memory, .num_slots = 2};
        const std::int32_t count = std::min(rows_each, rows - first);
        const std::vector<std::int32_t> zeros(rows, 0);
        problem.rows.add(all, first, count, spec);
        problem.plan.add_sequence(std::span(zeros).first(static_cast<std::size_t>(count)), first, zeros, false);
        problem.plan.states.push_back({.read = first > 0 ? step % 2 : -1, .write = 1 - step % 2});
        problem.plan.finish();
        Results results = run(problem, kernel);
        memory = std::move(results.memory);
        out.insert(out.end(), results.out.begin(), results.out.end());
      }
      return out;
    };
    const std::vector<float> whole = in_steps(rows);
    EXPECT_TRUE(same_bits(in_steps(1), whole));
    EXPECT_TRUE(same_bits(in_steps(7), whole));
  });
}

}  // namespace
}  // namespace rocmforge::test::selective_scan_test
