// Expected values come from the definition, over whole sequences in double: the reference is tested along with the kernels
// of the device, and the state between steps along with the outputs.

#include <algorithm>
#include <cmath>
#include <tuple>

#include "conformance/harness.h"

namespace rocmforge::test {
namespace {

/// The number of rows before a step, and of the rows that the step computes.
struct Part {
  std::int32_t before = 0;
  std::int32_t rows = 0;
  std::int32_t keep_rows = 0;  ///< the state behind so many of them is kept too
};

struct Sequence {
  std::vector<float> x;         ///< [rows, input_width()]
  std::vector<float> state;     ///< before the step
  std::vector<float> expected;  ///< [rows of the step, channels]
  std::vector<float> kept;
  std::vector<float> after;
};

double input(const CausalConv::Spec& spec, const std::vector<float>& x, std::int64_t row, std::int64_t channel) {
  if (row < 0) {
    return 0.0;
  }
  const auto at = static_cast<std::size_t>(row * spec.input_width() + channel);
  return spec.gates ? double{x[at]} * double{x[at + 2 * static_cast<std::size_t>(spec.channels)]} : double{x[at]};
}

std::vector<float> state_behind(const CausalConv::Spec& spec, const std::vector<float>& x, std::int64_t rows) {
  std::vector<float> state;
  for (std::int64_t row = rows - (spec.taps - 1); row < rows; ++row) {
    for (std::int64_t channel = 0; channel < spec.channels; ++channel) {
      state.push_back(static_cast<float>(input(spec, x, row, channel)));
    }
  }
  return state;
}

double expected_output(const CausalConv::Spec& spec, const std::vector<float>& weight, const std::vector<float>& bias,
                       const std::vector<float>& x, std::int64_t row, std::int64_t channel) {
  double sum = bias.empty() ? 0.0 : double{bias[static_cast<std::size_t>(channel)]};
  for (std::int64_t tap = 0; tap < spec.taps; ++tap) {
    sum += double{weight[static_cast<std::size_t>(channel * spec.taps + tap)]} *
           input(spec, x, row - (spec.taps - 1) + tap, channel);
  }
  sum = spec.silu ? sum / (1.0 + std::exp(-sum)) : sum;
  const auto gate = static_cast<std::size_t>(row * spec.input_width() + spec.channels + channel);
  return spec.gates ? double{x[gate]} * sum : sum;
}

Sequence make_sequence(const CausalConv::Spec& spec, const std::vector<float>& weight, const std::vector<float>& bias,
                       const Part& part, Random& random) {
  Sequence sequence;
  sequence.x = random.normals((part.before + part.rows) * spec.input_width());
  sequence.state = state_behind(spec, sequence.x, part.before);
  sequence.kept = state_behind(spec, sequence.x, part.before + part.keep_rows);
  sequence.after = state_behind(spec, sequence.x, part.before + part.rows);
  for (std::int64_t row = part.before; row < part.before + part.rows; ++row) {
    for (std::int64_t channel = 0; channel < spec.channels; ++channel) {
      sequence.expected.push_back(static_cast<float>(expected_output(spec, weight, bias, sequence.x, row, channel)));
    }
  }
  return sequence;
}

struct Problem {
  CausalConv::Spec spec;
  std::vector<float> weight;
  std::vector<float> bias;  ///< or none
  std::vector<Sequence> sequences;
  BatchPlan plan;
  std::vector<float> x;  ///< of all rows of the step
  std::int64_t x_stride = 0;
  std::int32_t num_slots = 0;
};

/// Floats of a row of x that are not the convolution's.
constexpr std::int64_t others = 7;

/// The slots of the sequences are not adjacent; the slot that is read comes before those that are written. Without gates
/// there is a bias.
Problem make_problem(const CausalConv::Spec& spec, const std::vector<Part>& parts, std::int32_t padding) {
  Problem problem;
  problem.spec = spec;
  problem.x_stride = spec.input_width() + (spec.gates ? 0 : others);
  Random random(static_cast<std::uint64_t>(spec.channels * 100 + spec.taps));
  problem.weight = random.normals(spec.channels * spec.taps);
  problem.bias = spec.gates ? std::vector<float>{} : random.normals(spec.channels);
  for (const Part& part : parts) {
    Sequence& sequence = problem.sequences.emplace_back(make_sequence(spec, problem.weight, problem.bias, part, random));
    const std::vector<std::int32_t> tokens(static_cast<std::size_t>(part.rows), 0);
    const std::vector<std::int32_t> blocks(static_cast<std::size_t>(part.before + part.rows), 0);
    problem.plan.add_sequence(tokens, part.before, blocks, false);
    problem.plan.states.push_back({.read = part.before > 0 ? problem.num_slots : -1,
                                   .write = problem.num_slots + 1,
                                   .keep = part.keep_rows > 0 ? problem.num_slots + 2 : -1,
                                   .keep_rows = part.keep_rows});
    problem.num_slots += 3;
    for (auto row = sequence.x.begin() + part.before * spec.input_width(); row != sequence.x.end();) {
      problem.x.insert(problem.x.end(), row, row + spec.input_width());
      problem.x.resize(problem.x.size() + static_cast<std::size_t>(problem.x_stride - spec.input_width()), NAN);
      row += spec.input_width();
    }
  }
  problem.plan.add_padding(padding);
  problem.x.resize(static_cast<std::size_t>(problem.plan.num_tokens() * problem.x_stride), 0.5f);
  problem.plan.finish();
  return problem;
}

/// Slots have more bytes than this operation's state, which begins behind the first of them.
constexpr std::int64_t elems_before = 8;
constexpr std::int64_t elems_behind = 4;

void expect_problem(const Problem& problem, const OpKernel<CausalConv>& kernel) {
  const CausalConv::Spec& spec = problem.spec;
  const std::int64_t stride = elems_before + spec.state_elems() + elems_behind;
  std::vector<float> memory(static_cast<std::size_t>(problem.num_slots * stride), NAN);
  const auto slot_at = [&](std::int32_t slot) { return memory.begin() + slot * stride + elems_before; };
  for (std::size_t s = 0; s < problem.sequences.size(); ++s) {
    if (problem.plan.states[s].read >= 0) {
      std::ranges::copy(problem.sequences[s].state, slot_at(problem.plan.states[s].read));
    }
  }
  Arena arena(harness().place_of(kernel));
  float* states = arena.in_out(memory);
  const std::int64_t tokens = problem.plan.num_tokens();
  auto* out = arena.out<float>(tokens * spec.channels);
  const CausalConv::Args args{
      .x = arena.in(problem.x),
      .x_stride = problem.x_stride,
      .weight = arena.in(problem.weight),
      .bias = problem.bias.empty() ? nullptr : arena.in(problem.bias),
      .states = StateView{reinterpret_cast<std::byte*>(states), stride * std::int64_t{sizeof(float)}, problem.num_slots}.at(
          elems_before * std::int64_t{sizeof(float)}),
      .batch = arena.batch(problem.plan),
      .out = out};
  arena.run([&](ExecutionContext& context) { kernel.run(spec, args, context); });

  std::vector<float> expected_memory = memory;
  std::vector<float> expected;
  for (std::size_t s = 0; s < problem.sequences.size(); ++s) {
    const Sequence& sequence = problem.sequences[s];
    const StateSlots& slots = problem.plan.states[s];
    expected.insert(expected.end(), sequence.expected.begin(), sequence.expected.end());
    const auto expect_slot = [&](std::int32_t slot, const std::vector<float>& state) {
      std::ranges::copy(state, expected_memory.begin() + slot * stride + elems_before);
    };
    expect_slot(slots.write, sequence.after);
    if (slots.keep >= 0) {
      expect_slot(slots.keep, sequence.kept);
    }
  }
  const std::vector<float> result = arena.read(out, tokens * spec.channels);
  EXPECT_LE(relative_error(std::span(result).first(expected.size()), expected), 1e-6);
  EXPECT_TRUE(std::ranges::none_of(result, [](float value) { return std::isnan(value); })) << "padding too is written";
  EXPECT_TRUE(same_bits(arena.read(states, static_cast<std::int64_t>(memory.size())), expected_memory))
      << "states, and nothing beside them";
}

/// Between gates, as it is, and with SiLU.
void expect_parts(std::int64_t channels, std::int64_t taps, const std::vector<Part>& parts, std::int32_t padding = 0) {
  for (const auto& [gates, silu] : {std::pair{true, false}, {false, false}, {false, true}}) {
    const Problem problem = make_problem({channels, taps, gates, silu}, parts, padding);
    harness().for_each_kernel_or_reference<CausalConv>(
        problem.spec, [&](const OpKernel<CausalConv>& kernel) { expect_problem(problem, kernel); });
  }
}

TEST(CausalConvConformance, TinySequencesStartGoOnAndDecode) {
  for (const auto& [channels, taps] : {std::pair{32, 3}, {33, 2}, {70, 4}, {5, 9}}) {
    expect_parts(channels, taps, {{0, 7}, {0, 1}, {4, 1}, {1, 5}, {30, 2}, {2, 1}});
  }
}

TEST(CausalConvConformance, TinyStatesBehindAnyRowAreKept) {
  for (const std::int32_t keep_rows : {1, 2, 6}) {
    expect_parts(40, 4, {{0, 6, keep_rows}, {5, 6, keep_rows}, {1, 7, keep_rows}, {3, 1, 1}});
  }
}

TEST(CausalConvConformance, TinyPaddingWritesNothing) { expect_parts(64, 3, {{9, 1}, {0, 1}, {1, 1}}, 5); }

TEST(CausalConvConformance, ManyTokens) {
  expect_parts(2048, 3, {{0, 300, 256}, {77, 130}, {12, 1}});
  expect_parts(1000, 4, std::vector<Part>(70, Part{11, 1}), 3);
}

/// On the CPU a row has the same bits however its sequence was split into steps.
TEST(CausalConvConformance, TinyStepsGiveTheBitsOfTheWhole) {
  const CausalConv::Spec spec{.channels = 48, .taps = 4, .silu = true};
  Random random(7);
  const std::vector<float> weight = random.normals(spec.channels * spec.taps);
  const std::vector<float> x = random.normals(20 * spec.channels);
  harness().for_each_kernel_or_reference<CausalConv>(spec, [&](const OpKernel<CausalConv>& kernel) {
    const auto in_steps = [&](std::int32_t rows_each) {
      Arena memory(harness().place_of(kernel));
      auto* states = memory.out<float>(2 * spec.state_elems());
      std::vector<float> all;
      for (std::int32_t first = 0, step = 0; first < 20; first += rows_each, ++step) {
        const std::int32_t rows = std::min(rows_each, 20 - first);
        BatchPlan plan;
        const std::vector<std::int32_t> zeros(20, 0);
        plan.add_sequence(std::span(zeros).first(static_cast<std::size_t>(rows)), first, zeros, false);
        plan.states.push_back({.read = first > 0 ? step % 2 : -1, .write = 1 - step % 2});
        plan.finish();
        Arena arena(harness().place_of(kernel));
        auto* out = arena.out<float>(rows * spec.channels);
        const auto part = std::span(x).subspan(static_cast<std::size_t>(first * spec.channels),
                                               static_cast<std::size_t>(rows * spec.channels));
        const CausalConv::Args args{
            .x = arena.in(part),
            .x_stride = spec.channels,
            .weight = arena.in(weight),
            .states = {reinterpret_cast<std::byte*>(states), spec.state_elems() * std::int64_t{sizeof(float)}, 2},
            .batch = arena.batch(plan),
            .out = out};
        arena.run([&](ExecutionContext& context) { kernel.run(spec, args, context); });
        const std::vector<float> own = arena.read(out, rows * spec.channels);
        all.insert(all.end(), own.begin(), own.end());
      }
      return all;
    };
    const std::vector<float> whole = in_steps(20);
    for (const std::int32_t rows_each : {1, 3, 7}) {
      EXPECT_TRUE(same_bits(in_steps(rows_each), whole)) << rows_each << " rows a step";
    }
  });
}

}  // namespace
}  // namespace rocmforge::test
