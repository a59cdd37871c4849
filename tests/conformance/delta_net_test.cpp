// Expected values come from the definition, over whole sequences in double: the reference is tested along with the kernels
// of the device, and the state between steps along with the outputs.

#include <algorithm>
#include <cmath>

#include "conformance/harness.h"

namespace rocmforge::test::delta_net_test {
namespace {

using Spec = GatedDeltaNet::Spec;

/// The number of rows before a step, and of the rows that the step computes.
struct Part {
  std::int32_t before = 0;
  std::int32_t rows = 0;
  std::int32_t keep_rows = 0;  ///< the state behind so many of them is kept too
};

std::size_t at(std::int64_t index) { return static_cast<std::size_t>(index); }

/// The numbers of the heads.
struct Weights {
  std::vector<float> rate;
  std::vector<float> step_bias;  ///< [value_heads, gates_of_head()]
};

/// Offsets that are added to the random numbers of the gates.
struct Gates {
  float beta = 0.0f;
  float alpha = 0.0f;
};

struct Sequence {
  std::vector<float> qkv;                  ///< [rows, input_width()]
  std::vector<float> gates;                ///< [rows, gates_of_row()]: beta, alpha
  std::vector<float> expected;             ///< [rows, values()]
  std::vector<std::vector<float>> states;  ///< behind so many rows
};

/// Betas, then alphas.
std::int64_t gates_of_row(const Spec& spec) { return spec.value_heads * (1 + spec.gates_of_head()); }

/// One row of one value head of the definition.
void expect_row(const Spec& spec, const Weights& weights, Sequence& sequence, std::int64_t row, std::int32_t head,
                std::vector<double>& state) {
  const float* qkv = sequence.qkv.data() + row * spec.input_width();
  const float* gates = sequence.gates.data() + row * gates_of_row(spec);
  const std::int32_t key_head = spec.tiled ? head % spec.key_heads : head / (spec.value_heads / spec.key_heads);
  const float* q = qkv + key_head * spec.key_dim;
  const float* k = q + spec.key_heads * spec.key_dim;
  const float* v = qkv + 2 * spec.key_heads * spec.key_dim + head * spec.value_dim;
  const auto length = [&](const float* x) {
    double squares = 1e-6;
    for (std::int32_t i = 0; i < spec.key_dim; ++i) {
      squares += double{x[i]} * double{x[i]};
    }
    return std::sqrt(squares);
  };
  const double q_scale = 1.0 / (length(q) * std::sqrt(static_cast<double>(spec.key_dim)));
  const double k_scale = 1.0 / length(k);
  const double share = 1.0 / (1.0 + std::exp(-double{gates[head]}));
  std::vector<double> decays(at(spec.key_dim));
  for (std::int32_t i = 0; i < spec.key_dim; ++i) {
    const std::int64_t gate = spec.decays_of_keys ? head * spec.key_dim + i : head;
    const double x = double{gates[spec.value_heads + gate]} + double{weights.step_bias[at(gate)]};
    const double rate{weights.rate[at(head)]};
    decays[at(i)] = std::exp(spec.decay_floor < 0.0f ? double{spec.decay_floor} / (1.0 + std::exp(-rate * x))
                                                     : rate * std::log1p(std::exp(x)));
  }
  for (std::int32_t j = 0; j < spec.value_dim; ++j) {
    double* s = state.data() + (std::int64_t{head} * spec.value_dim + j) * spec.key_dim;
    double recalled = 0.0;
    for (std::int32_t i = 0; i < spec.key_dim; ++i) {
      s[i] *= decays[at(i)];
      recalled += s[i] * double{k[i]} * k_scale;
    }
    double out = 0.0;
    for (std::int32_t i = 0; i < spec.key_dim; ++i) {
      s[i] += share * (double{v[j]} - recalled) * double{k[i]} * k_scale;
      out += s[i] * double{q[i]} * q_scale;
    }
    sequence.expected.push_back(static_cast<float>(out));
  }
}

Sequence make_sequence(const Spec& spec, const Weights& weights, std::int64_t rows, const Gates& gates, Random& random) {
  Sequence sequence{random.normals(rows * spec.input_width()), random.normals(rows * gates_of_row(spec)), {}, {}};
  for (std::size_t i = 0; i < sequence.gates.size(); ++i) {
    sequence.gates[i] += i % at(gates_of_row(spec)) < at(spec.value_heads) ? gates.beta : gates.alpha;
  }
  std::vector<double> state(at(spec.state_elems()), 0.0);
  sequence.states.emplace_back(state.begin(), state.end());
  for (std::int64_t row = 0; row < rows; ++row) {
    for (std::int32_t head = 0; head < spec.value_heads; ++head) {
      expect_row(spec, weights, sequence, row, head, state);
    }
    sequence.states.emplace_back(state.begin(), state.end());
  }
  return sequence;
}

struct Problem {
  Spec spec;
  Weights weights;
  std::vector<Part> parts;
  std::vector<Sequence> sequences;
  BatchPlan plan;
  std::int64_t qkv_stride = 0;
  std::int64_t gate_stride = 0;
  std::int64_t out_stride = 0;
  std::vector<float> qkv;    ///< of all rows of the step
  std::vector<float> gates;  ///< [tokens, gate_stride]: beta, alpha
  std::int32_t num_slots = 0;
};

void append_rows(std::vector<float>& to, std::span<const float> from, std::int64_t width, std::int64_t stride) {
  for (std::int64_t row = 0; row * width < static_cast<std::int64_t>(from.size()); ++row) {
    const auto one = from.subspan(at(row * width), at(width));
    to.insert(to.end(), one.begin(), one.end());
    to.resize(to.size() + at(stride - width), NAN);
  }
}

Problem make_problem(const Spec& spec, const std::vector<Part>& parts, std::int32_t padding, const Gates& gates) {
  Problem problem{.spec = spec, .weights = {}, .parts = parts, .sequences = {}, .plan = {}, .qkv = {}, .gates = {}};
  problem.qkv_stride = spec.input_width() + 3;
  problem.gate_stride = gates_of_row(spec) + 1;
  problem.out_stride = spec.values() + 5;
  Random random(static_cast<std::uint64_t>(spec.input_width()));
  problem.weights = {random.normals(spec.value_heads), random.normals(spec.value_heads * spec.gates_of_head())};
  std::ranges::transform(problem.weights.rate, problem.weights.rate.begin(), [&](float rate) {
    const float size = 0.02f + 0.2f * rate * rate;
    return spec.decay_floor < 0.0f ? size : -size;
  });
  for (const Part& part : parts) {
    const Sequence& sequence =
        problem.sequences.emplace_back(make_sequence(spec, problem.weights, part.before + part.rows, gates, random));
    const std::vector<std::int32_t> tokens(at(part.rows), 0);
    const std::vector<std::int32_t> blocks(at(part.before + part.rows), 0);
    problem.plan.add_sequence(tokens, part.before, blocks, false);
    problem.plan.states.push_back({.read = part.before > 0 ? problem.num_slots : -1,
                                   .write = problem.num_slots + 1,
                                   .keep = part.keep_rows > 0 ? problem.num_slots + 2 : -1,
                                   .keep_rows = part.keep_rows});
    problem.num_slots += 3;
    append_rows(problem.qkv, std::span(sequence.qkv).subspan(at(part.before * spec.input_width())), spec.input_width(),
                problem.qkv_stride);
    append_rows(problem.gates, std::span(sequence.gates).subspan(at(part.before * gates_of_row(spec))), gates_of_row(spec),
                problem.gate_stride);
  }
  problem.plan.add_padding(padding);
  problem.qkv.resize(at(problem.plan.num_tokens() * problem.qkv_stride), 0.5f);
  problem.gates.resize(at(problem.plan.num_tokens() * problem.gate_stride), 0.5f);
  problem.plan.finish();
  return problem;
}

/// Slots have more bytes than this operation's state, which begins behind the first of them.
constexpr std::int64_t elems_before = 8;
constexpr std::int64_t elems_behind = 4;

/// The slots before the step, or as they must be after it.
std::vector<float> slots_of(const Problem& problem, bool behind) {
  const std::int64_t stride = elems_before + problem.spec.state_elems() + elems_behind;
  std::vector<float> memory(at(problem.num_slots * stride), 7.5f);
  const auto write = [&](std::int32_t slot, const std::vector<float>& state) {
    std::ranges::copy(state, memory.begin() + slot * stride + elems_before);
  };
  for (std::size_t s = 0; s < problem.sequences.size(); ++s) {
    const StateSlots& slots = problem.plan.states[s];
    const Part& part = problem.parts[s];
    const auto& states = problem.sequences[s].states;
    if (slots.read >= 0) {
      write(slots.read, states[at(part.before)]);
    }
    if (behind) {
      write(slots.write, states.back());
      if (slots.keep >= 0) {
        write(slots.keep, states[at(part.before + part.keep_rows)]);
      }
    }
  }
  return memory;
}

/// The states after the step; other memory must be unchanged.
void expect_slots(const Problem& problem, std::span<const float> behind) {
  const std::int64_t stride = elems_before + problem.spec.state_elems() + elems_behind;
  const std::vector<float> wanted = slots_of(problem, true);
  const auto state_in = [&](std::span<const float> memory, std::int32_t slot) {
    return memory.subspan(at(slot * stride + elems_before), at(problem.spec.state_elems()));
  };
  for (const StateSlots& slots : problem.plan.states) {
    for (const std::int32_t slot : {slots.write, slots.keep}) {
      if (slot >= 0) {
        EXPECT_LE(relative_error(state_in(behind, slot), state_in(wanted, slot)), 1e-5) << "the state in slot " << slot;
      }
    }
  }
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    if (wanted[i] == 7.5f) {
      ASSERT_EQ(behind[i], 7.5f) << "element " << i << " belongs to no state";
    }
  }
}

void expect_problem(const Problem& problem, const OpKernel<GatedDeltaNet>& kernel) {
  const Spec& spec = problem.spec;
  const std::int64_t stride = elems_before + spec.state_elems() + elems_behind;
  const std::vector<float> memory = slots_of(problem, false);
  Arena arena(harness().place_of(kernel));
  float* states = arena.in_out(memory);
  const std::int64_t tokens = problem.plan.num_tokens();
  auto* out = arena.out<float>(tokens * problem.out_stride);
  const float* gates = arena.in(problem.gates);
  const GatedDeltaNet::Args args{
      .qkv = arena.in(problem.qkv),
      .qkv_stride = problem.qkv_stride,
      .beta = gates,
      .alpha = gates + spec.value_heads,
      .gate_stride = problem.gate_stride,
      .rate = arena.in(problem.weights.rate),
      .step_bias = arena.in(problem.weights.step_bias),
      .states = StateView{reinterpret_cast<std::byte*>(states), stride * std::int64_t{sizeof(float)}, problem.num_slots}.at(
          elems_before * std::int64_t{sizeof(float)}),
      .batch = arena.batch(problem.plan),
      .out = out,
      .out_stride = problem.out_stride,
      .workspace = arena.workspace(kernel.workspace_bytes(spec, tokens))};
  arena.run([&](ExecutionContext& context) { kernel.run(spec, args, context); });

  const std::vector<float> strided = arena.read(out, tokens * problem.out_stride);
  std::vector<float> result;
  for (std::int64_t t = 0; t < tokens; ++t) {
    result.insert(result.end(), strided.begin() + t * problem.out_stride,
                  strided.begin() + t * problem.out_stride + spec.values());
  }
  std::vector<float> expected;
  for (std::size_t s = 0; s < problem.sequences.size(); ++s) {
    const auto rows = std::span(problem.sequences[s].expected).subspan(at(problem.parts[s].before * spec.values()));
    expected.insert(expected.end(), rows.begin(), rows.end());
  }
  EXPECT_LE(relative_error(std::span(result).first(expected.size()), expected), 1e-5);
  EXPECT_TRUE(std::ranges::none_of(result, [](float value) { return std::isnan(value); })) << "padding too is written";

  expect_slots(problem, arena.read(states, static_cast<std::int64_t>(memory.size())));
}

void expect_parts(Spec spec, const std::vector<Part>& parts, std::int32_t padding = 0, const Gates& gates = {}) {
  for (const bool tiled : {false, true}) {
    spec.tiled = tiled;
    const Problem problem = make_problem(spec, parts, padding, gates);
    harness().for_each_kernel_or_reference<GatedDeltaNet>(
        spec, [&](const OpKernel<GatedDeltaNet>& kernel) { expect_problem(problem, kernel); });
  }
}

Spec heads(std::int32_t key_heads, std::int32_t value_heads, std::int32_t key_dim, std::int32_t value_dim) {
  return {.key_heads = key_heads, .value_heads = value_heads, .key_dim = key_dim, .value_dim = value_dim};
}

TEST(DeltaNetConformance, TinySequencesStartGoOnAndDecode) {
  for (const Spec& spec : {heads(2, 4, 16, 16), heads(1, 1, 128, 40), heads(2, 2, 36, 7), heads(1, 3, 4, 5)}) {
    expect_parts(spec, {{0, 7}, {0, 1}, {4, 1}, {1, 5}, {30, 2}});
  }
}

TEST(DeltaNetConformance, TinyStatesBehindAnyRowAreKept) {
  for (const std::int32_t keep_rows : {1, 2, 6}) {
    expect_parts(heads(2, 4, 20, 12), {{0, 6, keep_rows}, {5, 6, keep_rows}, {3, 1, 1}});
  }
}

TEST(DeltaNetConformance, TinyPromptsAreLongerThanWhatIsStaged) {
  expect_parts(heads(1, 2, 32, 8), {{0, 70, 64}, {33, 34, 32}});
}

TEST(DeltaNetConformance, TinyPaddingWritesNothing) { expect_parts(heads(2, 4, 16, 8), {{9, 1}, {0, 1}, {1, 1}}, 5); }

/// More rows than are staged at once, and than a chunk has.
TEST(DeltaNetConformance, TinyKeysWithDecaysOfTheirOwn) {
  for (Spec spec : {heads(2, 4, 16, 16), heads(1, 1, 128, 40), heads(2, 2, 36, 7)}) {
    spec.decays_of_keys = true;
    expect_parts(spec, {{0, 7}, {0, 1}, {4, 1}, {30, 70, 33}, {1, 17, 16}}, 2);
  }
}

TEST(DeltaNetConformance, TinyDecaysOfKeysFarOpenAndClosed) {
  Spec spec = heads(1, 1, 16, 16);
  spec.decays_of_keys = true;
  for (const float floor : {0.0f, -5.0f}) {
    spec.decay_floor = floor;
    for (const float alpha : {-15.0f, 0.0f, 40.0f, 400.0f}) {
      expect_parts(spec, {{3, 34, 33}}, 0, {1.0f, alpha});
    }
  }
}

TEST(DeltaNetConformance, HeadsOfRealModels) { expect_parts(heads(2, 4, 128, 128), {{0, 150, 128}, {77, 30}, {12, 1}}); }

/// The CPU supports them; GPUs give the reason why they do not.
TEST(DeltaNetConformance, TinyKeysThatAreNoMultipleOfFour) {
  const Spec spec = heads(2, 2, 9, 3);
  if (!harness().is_gpu()) {
    expect_parts(spec, {{0, 5, 4}, {2, 1}, {1, 33, 20}});
    return;
  }
  EXPECT_FALSE(harness().serves<GatedDeltaNet>(spec));
  for (const auto& kernel : harness().registry.all<GatedDeltaNet>()) {
    if (kernel->device() == harness().device.kind && !is_oracle(kernel->priority())) {
      EXPECT_EQ(kernel->supports(spec, harness().device).reason, "key heads of 9, it takes multiples of 4 up to 128");
    }
  }
}

// GPUs compute sequences with 32 or more rows in a step in chunks of 64 rows.

TEST(DeltaNetConformance, TinyChunksOfEveryLength) {
  expect_parts(heads(1, 2, 20, 9), {{0, 31}, {0, 32}, {5, 33}, {0, 63}, {3, 64}, {0, 65}});
  expect_parts(heads(1, 1, 128, 33), {{2, 127}, {1, 1}, {0, 128}, {6, 129}}, 3);
}

TEST(DeltaNetConformance, TinyStatesBehindAnyRowOfAChunkAreKept) {
  expect_parts(heads(1, 2, 16, 5), {{0, 40, 1}, {3, 64, 64}, {7, 130, 65}, {2, 130, 64}, {1, 70, 70}});
}

TEST(DeltaNetConformance, TinyChunksWithGatesFarOpenAndClosed) {
  for (const float beta : {-12.0f, 12.0f}) {
    for (const float alpha : {-15.0f, 0.0f, 40.0f, 400.0f}) {
      SCOPED_TRACE(testing::Message() << "beta " << beta << ", alpha " << alpha);
      expect_parts(heads(1, 1, 16, 16), {{20, 70, 68}}, 0, {beta, alpha});
    }
  }
}

TEST(DeltaNetConformance, ChunksOfManySequences) {
  expect_parts(heads(2, 4, 64, 48), {{0, 300}, {64, 1}, {10, 35, 35}, {0, 64}, {0, 3}, {200, 97, 60}, {31, 32}}, 2);
}

TEST(DeltaNetConformance, StepsLongerThanWhatIsComputedAtOnce) {
  expect_parts(heads(1, 2, 16, 8), {{3, 40}, {5, 4300, 4200}, {0, 50, 7}});
}

double opening(OutputGate::Gate gate, double g) {
  const double sigmoid = 1.0 / (1.0 + std::exp(-g));
  return gate == OutputGate::Gate::plain      ? g
         : gate == OutputGate::Gate::softplus ? std::log1p(std::exp(g))
         : gate == OutputGate::Gate::silu     ? g * sigmoid
                                              : sigmoid;
}

TEST(OutputGateConformance, TinyHeadsAreNormalisedAndGated) {
  for (const auto& [spec_heads, dim] : {std::pair{4, 16}, {3, 33}, {1, 100}, {17, 5}, {2, 300}}) {
    for (const bool norm : {false, true}) {
      for (const auto& [gate, of_heads] : {std::pair{OutputGate::Gate::sigmoid, false},
                                           {OutputGate::Gate::silu, false},
                                           {OutputGate::Gate::softplus, false},
                                           {OutputGate::Gate::plain, false},
                                           {OutputGate::Gate::sigmoid, true},
                                           {OutputGate::Gate::softplus, true},
                                           {OutputGate::Gate::plain, true}}) {
        const OutputGate::Spec spec{spec_heads, dim, gate, norm, 1e-3f, of_heads};
        constexpr std::int64_t tokens = 5;
        const std::int64_t x_stride = spec.width() + 2;
        const std::int64_t gate_stride = spec.width() + 3;
        Random random(static_cast<std::uint64_t>(dim));
        const std::vector<float> x = random.normals(tokens * x_stride);
        const std::vector<float> gates = random.normals(tokens * gate_stride);
        const std::vector<float> weight = random.normals(dim);
        std::vector<float> expected;
        for (std::int64_t t = 0; t < tokens; ++t) {
          for (std::int64_t head = 0; head < spec_heads; ++head) {
            const float* row = x.data() + t * x_stride + head * dim;
            double squares = 0.0;
            for (std::int32_t i = 0; i < dim; ++i) {
              squares += double{row[i]} * double{row[i]};
            }
            const double scale = 1.0 / std::sqrt(squares / dim + double{spec.eps});
            for (std::int32_t i = 0; i < dim; ++i) {
              const double g = double{gates[at(t * gate_stride + (spec.of_heads ? head : head * dim + i))]};
              const double open = opening(spec.gate, g);
              expected.push_back(static_cast<float>(double{row[i]} * (norm ? scale * double{weight[at(i)]} : 1.0) * open));
            }
          }
        }
        harness().for_each_kernel_or_reference<OutputGate>(spec, [&](const OpKernel<OutputGate>& kernel) {
          Arena arena(harness().place_of(kernel));
          auto* out = arena.out<float>(tokens * spec.width());
          const OutputGate::Args args{.x = arena.in(x),
                                      .x_stride = x_stride,
                                      .gate = arena.in(gates),
                                      .gate_stride = gate_stride,
                                      .weight = norm ? arena.in(weight) : nullptr,
                                      .tokens = tokens,
                                      .out = out};
          arena.run([&](ExecutionContext& context) { kernel.run(spec, args, context); });
          EXPECT_LE(relative_error(arena.read(out, tokens * spec.width()), expected), 1e-5);
        });
      }
    }
  }
}

}  // namespace
}  // namespace rocmforge::test::delta_net_test
