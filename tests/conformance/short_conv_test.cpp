// Expected values come from the definition, over whole sequences in double: the reference is tested along with the kernels
// of the device, and what a step takes from the one before it along with what it computes.

#include <algorithm>
#include <cmath>
#include <tuple>

#include "conformance/harness.h"

namespace rocmforge::test {
namespace {

/// Rows of a sequence that are there, and those that a step computes then.
struct Part {
  std::int32_t before = 0;
  std::int32_t rows = 0;
  std::int32_t keep_rows = 0;  ///< the state behind so many of them is kept too
};

struct Sequence {
  std::vector<float> x;         ///< [rows, 3, channels]
  std::vector<float> state;     ///< before the step
  std::vector<float> expected;  ///< [rows of the step, channels]
  std::vector<float> kept;
  std::vector<float> after;
};

double input(const ShortConv::Spec& spec, const std::vector<float>& x, std::int64_t row, std::int64_t channel) {
  if (row < 0) {
    return 0.0;
  }
  const std::int64_t at = row * 3 * spec.channels + channel;
  return double{x[static_cast<std::size_t>(at)]} * double{x[static_cast<std::size_t>(at + 2 * spec.channels)]};
}

std::vector<float> state_behind(const ShortConv::Spec& spec, const std::vector<float>& x, std::int64_t rows) {
  std::vector<float> state;
  for (std::int64_t row = rows - (spec.taps - 1); row < rows; ++row) {
    for (std::int64_t channel = 0; channel < spec.channels; ++channel) {
      state.push_back(static_cast<float>(input(spec, x, row, channel)));
    }
  }
  return state;
}

Sequence make_sequence(const ShortConv::Spec& spec, const std::vector<float>& weight, const Part& part, Random& random) {
  Sequence sequence;
  sequence.x = random.normals((part.before + part.rows) * 3 * spec.channels);
  sequence.state = state_behind(spec, sequence.x, part.before);
  sequence.kept = state_behind(spec, sequence.x, part.before + part.keep_rows);
  sequence.after = state_behind(spec, sequence.x, part.before + part.rows);
  for (std::int64_t row = part.before; row < part.before + part.rows; ++row) {
    for (std::int64_t channel = 0; channel < spec.channels; ++channel) {
      double sum = 0.0;
      for (std::int64_t tap = 0; tap < spec.taps; ++tap) {
        sum += double{weight[static_cast<std::size_t>(channel * spec.taps + tap)]} *
               input(spec, sequence.x, row - (spec.taps - 1) + tap, channel);
      }
      const auto gate = static_cast<std::size_t>((row * 3 + 1) * spec.channels + channel);
      sequence.expected.push_back(static_cast<float>(double{sequence.x[gate]} * sum));
    }
  }
  return sequence;
}

struct Problem {
  ShortConv::Spec spec;
  std::vector<float> weight;
  std::vector<Sequence> sequences;
  BatchPlan plan;
  std::vector<float> x;  ///< of all rows of the step
  std::int32_t num_slots = 0;
};

/// Slots of the sequences lie apart, each read one before those that are written.
Problem make_problem(const ShortConv::Spec& spec, const std::vector<Part>& parts, std::int32_t padding) {
  Problem problem;
  problem.spec = spec;
  Random random(static_cast<std::uint64_t>(spec.channels * 100 + spec.taps));
  problem.weight = random.normals(spec.channels * spec.taps);
  for (const Part& part : parts) {
    Sequence& sequence = problem.sequences.emplace_back(make_sequence(spec, problem.weight, part, random));
    const std::vector<std::int32_t> tokens(static_cast<std::size_t>(part.rows), 0);
    const std::vector<std::int32_t> blocks(static_cast<std::size_t>(part.before + part.rows), 0);
    problem.plan.add_sequence(tokens, part.before, blocks, false);
    problem.plan.states.push_back({.read = part.before > 0 ? problem.num_slots : -1,
                                   .write = problem.num_slots + 1,
                                   .keep = part.keep_rows > 0 ? problem.num_slots + 2 : -1,
                                   .keep_rows = part.keep_rows});
    problem.num_slots += 3;
    problem.x.insert(problem.x.end(), sequence.x.begin() + part.before * 3 * spec.channels, sequence.x.end());
  }
  problem.plan.add_padding(padding);
  problem.x.resize(static_cast<std::size_t>(problem.plan.num_tokens() * 3 * spec.channels), 0.5f);
  problem.plan.finish();
  return problem;
}

/// Slots have more bytes than this operation's state, which begins behind the first of them.
constexpr std::int64_t elems_before = 8;
constexpr std::int64_t elems_behind = 4;

void expect_problem(const Problem& problem, const OpKernel<ShortConv>& kernel) {
  const ShortConv::Spec& spec = problem.spec;
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
  const ShortConv::Args args{
      .x = arena.in(problem.x),
      .weight = arena.in(problem.weight),
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

void expect_parts(const ShortConv::Spec& spec, const std::vector<Part>& parts, std::int32_t padding = 0) {
  const Problem problem = make_problem(spec, parts, padding);
  harness().for_each_kernel_or_reference<ShortConv>(
      spec, [&](const OpKernel<ShortConv>& kernel) { expect_problem(problem, kernel); });
}

TEST(ShortConvConformance, TinySequencesStartGoOnAndDecode) {
  for (const auto& [channels, taps] : {std::pair{32, 3}, {33, 2}, {70, 4}, {5, 9}}) {
    expect_parts({channels, taps}, {{0, 7}, {0, 1}, {4, 1}, {1, 5}, {30, 2}, {2, 1}});
  }
}

TEST(ShortConvConformance, TinyStatesBehindAnyRowAreKept) {
  for (const std::int32_t keep_rows : {1, 2, 6}) {
    expect_parts({40, 4}, {{0, 6, keep_rows}, {5, 6, keep_rows}, {1, 7, keep_rows}, {3, 1, 1}});
  }
}

TEST(ShortConvConformance, TinyPaddingWritesNothing) { expect_parts({64, 3}, {{9, 1}, {0, 1}, {1, 1}}, 5); }

TEST(ShortConvConformance, ManyTokens) {
  expect_parts({2048, 3}, {{0, 300, 256}, {77, 130}, {12, 1}});
  expect_parts({1000, 4}, std::vector<Part>(70, Part{11, 1}), 3);
}

/// On the CPU a row has the same bits however its sequence was cut into steps.
TEST(ShortConvConformance, TinyStepsGiveTheBitsOfTheWhole) {
  const ShortConv::Spec spec{48, 4};
  Random random(7);
  const std::vector<float> weight = random.normals(spec.channels * spec.taps);
  const std::vector<float> x = random.normals(20 * 3 * spec.channels);
  harness().for_each_kernel_or_reference<ShortConv>(spec, [&](const OpKernel<ShortConv>& kernel) {
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
        const auto part = std::span(x).subspan(static_cast<std::size_t>(first * 3 * spec.channels),
                                               static_cast<std::size_t>(rows * 3 * spec.channels));
        const ShortConv::Args args{
            .x = arena.in(part),
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
