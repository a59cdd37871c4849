// Expected values come from the definition, over whole sequences in double: the reference is tested along with the kernels
// of the device, and the state between steps along with the outputs.

#include <algorithm>
#include <cmath>

#include "conformance/harness.h"
#include "kernels/check/arguments/arguments.h"

namespace rocmforge::test::ssm_scan_test {
namespace {

/// The number of rows before a step, and of the rows that the step computes.
struct Part {
  std::int32_t before = 0;
  std::int32_t rows = 0;
  std::int32_t keep_rows = 0;  ///< the state behind so many of them is kept too
};

struct Weights {
  std::vector<float> a;
  std::vector<float> d;
  std::vector<float> dt_bias;
};

struct Sequence {
  std::vector<float> x;         ///< [rows, input_width]
  std::vector<float> gates;     ///< [rows, inner + heads]: z and dt
  std::vector<float> state;     ///< before the step
  std::vector<float> expected;  ///< [rows of the step, inner]
  std::vector<float> kept;
  std::vector<float> after;
};

std::int64_t gates_width(const SsmScan::Spec& spec) { return spec.inner() + spec.heads; }

/// Computes one row of all heads and returns its output.
std::vector<float> advance(const SsmScan::Spec& spec, const Weights& weights, const float* x, const float* gates,
                           std::vector<double>& state) {
  std::vector<float> out;
  for (std::int64_t head = 0; head < spec.heads; ++head) {
    const auto h = static_cast<std::size_t>(head);
    const double step = std::log1p(std::exp(double{gates[spec.inner() + head]} + double{weights.dt_bias[h]}));
    const float* b = x + spec.inner() + head * spec.groups / spec.heads * spec.state_size;
    const float* c = b + spec.groups * spec.state_size;
    for (std::int64_t p = 0; p < spec.head_dim; ++p) {
      const std::int64_t channel = head * spec.head_dim + p;
      double y = double{weights.d[h]} * double{x[channel]};
      for (std::int64_t n = 0; n < spec.state_size; ++n) {
        double& element = state[static_cast<std::size_t>(channel * spec.state_size + n)];
        element = std::exp(step * double{weights.a[h]}) * element + step * double{x[channel]} * double{b[n]};
        y += element * double{c[n]};
      }
      const double z = gates[channel];
      out.push_back(static_cast<float>(y * z / (1.0 + std::exp(-z))));
    }
  }
  return out;
}

/// Rounds the state to float, as kernels do between two steps.
std::vector<float> rounded(std::vector<double>& state) {
  std::vector<float> floats(state.begin(), state.end());
  std::ranges::copy(floats, state.begin());
  return floats;
}

/// `dt` is added to random numbers.
Sequence make_sequence(const SsmScan::Spec& spec, const Weights& weights, const Part& part, float dt, Random& random) {
  Sequence sequence;
  const std::int64_t rows = part.before + part.rows;
  sequence.x = random.normals(rows * spec.input_width());
  sequence.gates = random.normals(rows * gates_width(spec));
  for (std::int64_t i = 0; i < rows * gates_width(spec); ++i) {
    sequence.gates[static_cast<std::size_t>(i)] += i % gates_width(spec) >= spec.inner() ? dt : 0.0f;
  }
  std::vector<double> state(static_cast<std::size_t>(spec.state_elems()), 0.0);
  sequence.state = rounded(state);
  for (std::int64_t row = 0; row < rows; ++row) {
    const std::vector<float> out = advance(spec, weights, sequence.x.data() + row * spec.input_width(),
                                           sequence.gates.data() + row * gates_width(spec), state);
    if (row + 1 == part.before) {
      sequence.state = rounded(state);
    }
    if (row >= part.before) {
      sequence.expected.insert(sequence.expected.end(), out.begin(), out.end());
    }
    if (row + 1 == part.before + part.keep_rows) {
      sequence.kept.assign(state.begin(), state.end());
    }
  }
  sequence.after.assign(state.begin(), state.end());
  return sequence;
}

Weights make_weights(const SsmScan::Spec& spec, Random& random) {
  Weights weights{random.uniforms(spec.heads, 0.2f, 1.5f), random.normals(spec.heads),
                  random.uniforms(spec.heads, -3.0f, 1.0f)};
  std::ranges::transform(weights.a, weights.a.begin(), [](float value) { return -value; });
  return weights;
}

struct Problem {
  SsmScan::Spec spec;
  Weights weights;
  std::vector<Sequence> sequences;
  BatchPlan plan;
  std::vector<float> x;  ///< of all rows of the step
  std::vector<float> gates;
  std::int32_t num_slots = 0;
};

/// The slots of the sequences are not adjacent; the slot that is read comes before those that are written.
Problem make_problem(const SsmScan::Spec& spec, const std::vector<Part>& parts, std::int32_t padding, float dt) {
  Problem problem;
  problem.spec = spec;
  Random random(static_cast<std::uint64_t>(spec.state_elems() + spec.heads));
  problem.weights = make_weights(spec, random);
  for (const Part& part : parts) {
    Sequence& sequence = problem.sequences.emplace_back(make_sequence(spec, problem.weights, part, dt, random));
    const std::vector<std::int32_t> tokens(static_cast<std::size_t>(part.rows), 0);
    const std::vector<std::int32_t> blocks(static_cast<std::size_t>(part.before + part.rows), 0);
    problem.plan.add_sequence(tokens, part.before, blocks, false);
    problem.plan.states.push_back({.read = part.before > 0 ? problem.num_slots : -1,
                                   .write = problem.num_slots + 1,
                                   .keep = part.keep_rows > 0 ? problem.num_slots + 2 : -1,
                                   .keep_rows = part.keep_rows});
    problem.num_slots += 3;
    problem.x.insert(problem.x.end(), sequence.x.begin() + part.before * spec.input_width(), sequence.x.end());
    problem.gates.insert(problem.gates.end(), sequence.gates.begin() + part.before * gates_width(spec),
                         sequence.gates.end());
  }
  problem.plan.add_padding(padding);
  problem.x.resize(static_cast<std::size_t>(problem.plan.num_tokens() * spec.input_width()), 0.5f);
  problem.gates.resize(static_cast<std::size_t>(problem.plan.num_tokens() * gates_width(spec)), 0.5f);
  problem.plan.finish();
  return problem;
}

/// Slots have more bytes than this operation's state, which begins behind the first of them.
constexpr std::int64_t elems_before = 8;

/// Checks this operation's part of each slot, and that the rest of the memory is unchanged.
void expect_slots(const Problem& problem, std::span<const float> memory, std::span<const float> before,
                  std::int64_t stride) {
  std::vector<bool> written(static_cast<std::size_t>(problem.num_slots), false);
  const auto expect_slot = [&](std::int32_t slot, const std::vector<float>& state, const char* what) {
    const auto own = memory.subspan(static_cast<std::size_t>(slot * stride + elems_before), state.size());
    EXPECT_LE(relative_error(own, state), 1e-5) << what << " in slot " << slot;
    written[static_cast<std::size_t>(slot)] = true;
  };
  for (std::size_t s = 0; s < problem.sequences.size(); ++s) {
    const StateSlots& slots = problem.plan.states[s];
    expect_slot(slots.write, problem.sequences[s].after, "the state behind the step");
    if (slots.keep >= 0) {
      expect_slot(slots.keep, problem.sequences[s].kept, "the state behind the rows that are kept");
    }
  }
  std::vector<float> beside;
  std::vector<float> beside_before;
  for (std::int64_t i = 0; i < static_cast<std::int64_t>(memory.size()); ++i) {
    const std::int64_t at = i % stride - elems_before;
    if (!written[static_cast<std::size_t>(i / stride)] || at < 0 || at >= problem.spec.state_elems()) {
      beside.push_back(memory[static_cast<std::size_t>(i)]);
      beside_before.push_back(before[static_cast<std::size_t>(i)]);
    }
  }
  EXPECT_TRUE(same_bits(beside, beside_before)) << "states, and nothing beside them";
}

void expect_problem(const Problem& problem, const OpKernel<SsmScan>& kernel) {
  const SsmScan::Spec& spec = problem.spec;
  const std::int64_t stride = elems_before + spec.state_elems() + 4;
  std::vector<float> memory(static_cast<std::size_t>(problem.num_slots * stride), NAN);
  for (std::size_t s = 0; s < problem.sequences.size(); ++s) {
    if (const std::int32_t slot = problem.plan.states[s].read; slot >= 0) {
      std::ranges::copy(problem.sequences[s].state, memory.begin() + slot * stride + elems_before);
    }
  }
  Arena arena(harness().place_of(kernel));
  float* states = arena.in_out(memory);
  const float* gates = arena.in(problem.gates);
  const std::int64_t count = problem.plan.num_tokens() * spec.inner();
  auto* out = arena.out<float>(count);
  const SsmScan::Args args{
      .x = arena.in(problem.x),
      .z = gates,
      .dt = gates + spec.inner(),
      .stride = gates_width(spec),
      .a = arena.in(problem.weights.a),
      .d = arena.in(problem.weights.d),
      .dt_bias = arena.in(problem.weights.dt_bias),
      .states = StateView{reinterpret_cast<std::byte*>(states), stride * std::int64_t{sizeof(float)}, problem.num_slots}.at(
          elems_before * std::int64_t{sizeof(float)}),
      .batch = arena.batch(problem.plan),
      .out = out,
      .workspace = arena.workspace(kernel.workspace_bytes(spec, problem.plan.num_tokens()))};
  arena.run([&](ExecutionContext& context) { kernel.run(spec, args, context); });

  std::vector<float> expected;
  for (const Sequence& sequence : problem.sequences) {
    expected.insert(expected.end(), sequence.expected.begin(), sequence.expected.end());
  }
  const std::vector<float> result = arena.read(out, count);
  EXPECT_LE(relative_error(std::span(result).first(expected.size()), expected), 1e-5);
  EXPECT_TRUE(std::ranges::none_of(result, [](float value) { return std::isnan(value); })) << "padding too is written";
  expect_slots(problem, arena.read(states, static_cast<std::int64_t>(memory.size())), memory, stride);
}

void expect_parts(const SsmScan::Spec& spec, const std::vector<Part>& parts, std::int32_t padding = 0, float dt = 0.0f) {
  const Problem problem = make_problem(spec, parts, padding, dt);
  harness().for_each_kernel_or_reference<SsmScan>(spec,
                                                  [&](const OpKernel<SsmScan>& kernel) { expect_problem(problem, kernel); });
}

TEST(SsmScanConformance, TinySequencesStartGoOnAndDecode) {
  for (const SsmScan::Spec& spec : {SsmScan::Spec{2, 8, 16, 1}, SsmScan::Spec{4, 5, 12, 2}, SsmScan::Spec{3, 66, 8, 3}}) {
    expect_parts(spec, {{0, 7}, {0, 1}, {4, 1}, {1, 12}, {30, 2}, {2, 1}});
  }
}

TEST(SsmScanConformance, TinyEverySizeOfState) {
  for (const std::int64_t size : {32, 36, 64, 128, 200, 256}) {
    expect_parts({2, 8, size, 1}, {{0, 9}, {3, 1}});
  }
}

TEST(SsmScanConformance, TinyStatesBehindAnyRowAreKept) {
  for (const std::int32_t keep_rows : {1, 8, 11}) {
    expect_parts({2, 6, 16, 2}, {{0, 11, keep_rows}, {5, 12, keep_rows}, {3, 1, 1}});
  }
}

TEST(SsmScanConformance, TinyPaddingWritesNothing) { expect_parts({4, 8, 16, 2}, {{9, 1}, {0, 1}, {1, 1}}, 5); }

TEST(SsmScanConformance, ManyRowsAndHeads) {
  expect_parts({24, 64, 128, 8}, {{0, 150, 128}, {33, 40}, {12, 1}});
  expect_parts({8, 64, 64, 1}, std::vector<Part>(70, Part{3, 1}), 3);
}

// GPUs compute sequences with 32 or more rows in a step in chunks of 64 rows.

TEST(SsmScanConformance, TinyChunksOfEveryLength) {
  expect_parts({2, 9, 20, 1}, {{0, 31}, {0, 32}, {5, 33}, {0, 63}, {3, 64}, {0, 65}});
  expect_parts({2, 33, 128, 2}, {{2, 127}, {1, 1}, {0, 128}, {6, 129}}, 3);
  expect_parts({2, 17, 144, 1}, {{3, 66}, {0, 32}});
}

TEST(SsmScanConformance, TinyStatesBehindAnyRowOfAChunkAreKept) {
  expect_parts({2, 5, 16, 1}, {{0, 40, 1}, {3, 64, 64}, {7, 130, 65}, {2, 130, 64}, {1, 70, 70}});
}

TEST(SsmScanConformance, TinyChunksWithStepsFarFromOne) {
  for (const float dt : {-15.0f, 5.0f, 40.0f, 400.0f}) {
    SCOPED_TRACE(dt);
    expect_parts({1, 16, 16, 1}, {{20, 70, 68}}, 0, dt);
  }
}

TEST(SsmScanConformance, ChunksOfManySequences) {
  expect_parts({4, 48, 64, 2}, {{0, 300}, {64, 1}, {10, 35, 35}, {0, 64}, {0, 3}, {200, 97, 60}, {31, 32}}, 2);
}

TEST(SsmScanConformance, StepsLongerThanWhatIsComputedAtOnce) {
  expect_parts({2, 8, 16, 1}, {{3, 40}, {5, 4300, 4200}, {0, 50, 7}});
}

/// For large dt, softplus(dt) is dt; e^dt would overflow.
TEST(SsmScanConformance, TinyLongSteps) {
  const SsmScan::Spec spec{1, 4, 4, 1};
  harness().for_each_kernel_or_reference<SsmScan>(spec, [&](const OpKernel<SsmScan>& kernel) {
    Arena arena(harness().place_of(kernel));
    const std::vector<std::int32_t> zero(1, 0);
    BatchPlan plan;
    plan.add_sequence(zero, 0, zero, false);
    plan.states.push_back({.write = 0});
    plan.finish();
    const float* gates = arena.in(std::vector<float>{100.0f, 100.0f, 100.0f, 100.0f, 100.0f});
    auto* states = arena.out<float>(spec.state_elems());
    auto* out = arena.out<float>(spec.inner());
    const SsmScan::Args args{
        .x = arena.in(std::vector<float>(12, 1.0f)),
        .z = gates,
        .dt = gates + 4,
        .stride = 5,
        .a = arena.in(std::vector<float>{-1.0f}),
        .d = arena.in(std::vector<float>{1.0f}),
        .dt_bias = arena.in(std::vector<float>{50.0f}),
        .states = {reinterpret_cast<std::byte*>(states), spec.state_elems() * std::int64_t{sizeof(float)}, 1},
        .batch = arena.batch(plan),
        .out = out};
    arena.run([&](ExecutionContext& context) { kernel.run(spec, args, context); });
    for (const float value : arena.read(out, spec.inner())) {
      EXPECT_NEAR(value, (4 * 150.0f + 1.0f) * 100.0f, 1.0f);
    }
  });
}

/// A row has the same bits however its sequence was split into steps.
TEST(SsmScanConformance, TinyStepsGiveTheBitsOfTheWhole) {
  const SsmScan::Spec spec{2, 8, 32, 1};
  constexpr std::int32_t rows = 20;
  Random random(7);
  const Weights weights = make_weights(spec, random);
  const std::vector<float> x = random.normals(rows * spec.input_width());
  const std::vector<float> gates = random.normals(rows * gates_width(spec));
  harness().for_each_kernel_or_reference<SsmScan>(spec, [&](const OpKernel<SsmScan>& kernel) {
    const auto in_steps = [&](std::int32_t rows_each) {
      Arena memory(harness().place_of(kernel));
      auto* states = memory.out<float>(2 * spec.state_elems());
      std::vector<float> all;
      for (std::int32_t first = 0, step = 0; first < rows; first += rows_each, ++step) {
        const std::int32_t count = std::min(rows_each, rows - first);
        BatchPlan plan;
        const std::vector<std::int32_t> zeros(rows, 0);
        plan.add_sequence(std::span(zeros).first(static_cast<std::size_t>(count)), first, zeros, false);
        plan.states.push_back({.read = first > 0 ? step % 2 : -1, .write = 1 - step % 2});
        plan.finish();
        Arena arena(harness().place_of(kernel));
        const auto part = [&](const std::vector<float>& whole, std::int64_t width) {
          return arena.in(
              std::span(whole).subspan(static_cast<std::size_t>(first * width), static_cast<std::size_t>(count * width)));
        };
        const float* own_gates = part(gates, gates_width(spec));
        auto* out = arena.out<float>(count * spec.inner());
        const SsmScan::Args args{
            .x = part(x, spec.input_width()),
            .z = own_gates,
            .dt = own_gates + spec.inner(),
            .stride = gates_width(spec),
            .a = arena.in(weights.a),
            .d = arena.in(weights.d),
            .dt_bias = arena.in(weights.dt_bias),
            .states = {reinterpret_cast<std::byte*>(states), spec.state_elems() * std::int64_t{sizeof(float)}, 2},
            .batch = arena.batch(plan),
            .out = out};
        arena.run([&](ExecutionContext& context) { kernel.run(spec, args, context); });
        const std::vector<float> own = arena.read(out, count * spec.inner());
        all.insert(all.end(), own.begin(), own.end());
      }
      return all;
    };
    const std::vector<float> whole = in_steps(rows);
    for (const std::int32_t rows_each : {1, 3, 9}) {
      EXPECT_TRUE(same_bits(in_steps(rows_each), whole)) << rows_each << " rows a step";
    }
  });
}

TEST(SsmScanChecks, TinySpecsThatCannotBeAreRefusedWithTheReason) {
  EXPECT_TRUE(check_spec(SsmScan::Spec{4, 8, 16, 2}).ok);
  EXPECT_EQ(check_spec(SsmScan::Spec{4, 8, 16, 3}).reason, "4 heads in 3 groups");
  EXPECT_EQ(check_spec(SsmScan::Spec{4, 8, 16, 0}).reason, "4 heads in 0 groups");
  EXPECT_EQ(check_spec(SsmScan::Spec{4, 8, 0, 1}).reason, "4 heads of 8 with a state of 0");
  EXPECT_EQ(check_spec(RmsNorm::Spec{8, 1e-5f, 0}).reason, "0 groups");
}

}  // namespace
}  // namespace rocmforge::test::ssm_scan_test
