// Recurrent layers at the sizes of real work, on a real GPU: every element of the outputs and of the states behind the step
// is compared with the plain kernels' (check). Outputs and workspaces are poisoned, and each call runs in
// all situations.

#include <algorithm>
#include <cstdio>

#include "conformance/at_size.h"

namespace rocmforge::test::at_size_recurrent_test {
namespace {

/// Kernels sum a chunk's rows in f32. In rows whose large terms cancel, their roundings are what remains.
constexpr double allowed = 5e-5;

/// A sequence's rows in the step; it goes on from a state, or starts.
struct Part {
  std::int32_t rows = 0;
  bool goes_on = false;
  std::int32_t keep_rows = 0;
};

struct Step {
  std::string name;
  std::vector<Part> parts;
};

/// The steps of servers: decodes, prompts of lengths around the sizes of chunks, long prompts, and mixes.
std::vector<Step> steps() {
  const auto repeated = [](std::size_t count, Part part) { return std::vector<Part>(count, part); };
  std::vector<Step> all = {{"one token", repeated(1, {1})},
                           {"one decode", repeated(1, {1, true})},
                           {"3 decodes", repeated(3, {1, true})},
                           {"32 decodes", repeated(32, {1, true})},
                           {"256 decodes", repeated(256, {1, true})}};
  for (const std::int32_t length : {2, 15, 16, 17, 31, 32, 33, 63, 64, 65, 127, 128, 129}) {
    all.push_back({"40 prompts of " + std::to_string(length), repeated(40, {length})});
  }
  all.push_back({"a prompt of 2,048", {{2048, false, 1536}}});
  all.push_back({"a chunk of 512 behind a state", {{512, true}}});
  Step mixed{"prompts of all lengths beside decodes", {}};
  for (std::int32_t i = 0; i < 24; ++i) {
    const std::int32_t length = 1 + i * 53 % 140;
    mixed.parts.push_back({length, i % 3 == 0, i % 5 == 0 ? (length + 1) / 2 : 0});
    mixed.parts.push_back({1, true});
  }
  all.push_back(mixed);
  return all;
}

/// A step's arrays, and slots of `elems` floats: two or three of each sequence.
class RecurrentStep {
 public:
  RecurrentStep(const Step& step, std::int64_t elems) : elems_(elems) {
    for (const Part& part : step.parts) {
      const std::vector<std::int32_t> zeros(static_cast<std::size_t>(part.rows) + 1, 0);
      plan_.add_sequence(std::span(zeros).first(static_cast<std::size_t>(part.rows)), part.goes_on ? 1 : 0, zeros, false);
      StateSlots slots{.read = part.goes_on ? num_slots_++ : -1, .write = num_slots_++};
      if (part.keep_rows > 0) {
        slots.keep = num_slots_++;
        slots.keep_rows = part.keep_rows;
      }
      plan_.states.push_back(slots);
    }
    plan_.finish();
    offsets_ = uploaded(plan_.query_offsets);
    sequences_ = uploaded(plan_.sequence_of);
    slots_ = uploaded(plan_.states);
    before_ = random_floats(num_slots_ * elems_, 71, 0.3f);
  }

  [[nodiscard]] std::int64_t tokens() const { return plan_.num_tokens(); }
  [[nodiscard]] std::int64_t state_elems() const { return num_slots_ * elems_; }

  /// All slots: before each call those that the step reads, and other numbers in those that it writes.
  [[nodiscard]] Output states() const { return {DType::f32, state_elems() / chunk, chunk, &before_}; }
  [[nodiscard]] StateView view(const Output& states) const {
    return {states.memory.as<std::byte>(), elems_ * std::int64_t{sizeof(float)}, num_slots_};
  }
  [[nodiscard]] RaggedBatch batch() const {
    RaggedBatch batch = plan_.view();
    batch.query_offsets = offsets_.as<std::int32_t>();
    batch.sequence_of = sequences_.as<std::int32_t>();
    batch.states = slots_.as<StateSlots>();
    return batch;
  }

 private:
  std::int64_t elems_;
  BatchPlan plan_;
  std::int32_t num_slots_ = 0;
  DeviceBuffer offsets_, sequences_, slots_, before_;
};

/// Compares all kernels with the plain one. `make(step)` gives a function that calls a kernel with a step's slots.
template <class Op, class Make>
void expect_all(const typename Op::Spec& spec, std::int64_t width, const std::string& name, const Make& make) {
  std::int64_t elements = 0;
  for (const Step& one : steps()) {
    SCOPED_TRACE(one.name);
    const RecurrentStep step(one, spec.state_elems());
    const auto fill = make(step);
    typename Op::Args args = fill();
    args.batch = step.batch();
    const auto run = [&](const OpKernel<Op>& kernel, const DeviceBuffer& workspace, const Output& out,
                         const Output& states) {
      args.states = step.view(states);
      args.out = out.memory.as<float>();
      if constexpr (requires { args.workspace; }) {
        args.workspace = workspace.data();
      }
      kernel.run(spec, args, harness().target.context);
    };
    const auto output = [&] { return Output(DType::f32, step.tokens() * width / chunk, chunk); };
    const OpKernel<Op>& plain = *harness().registry.choose<Op>(spec, harness().device, "check").kernel;
    const Output expected = output();
    const Output expected_states = step.states();
    expected_states.reset(harness().target.device->stream());
    run(plain, {}, expected, expected_states);
    harness().target.device->stream().synchronize();
    harness().for_each_kernel<Op>(spec, [&](const OpKernel<Op>& kernel) {
      if (&kernel == &plain) {
        return;
      }
      const Output out = output();
      const Output states = step.states();
      const DeviceBuffer workspace = poisoned_buffer(kernel.workspace_bytes(spec, step.tokens()));
      run_in_all_situations({&out, &states}, kernel.name(), [&] { run(kernel, workspace, out, states); });
      expect_rows(out, expected, allowed, kernel.name());
      expect_rows(states, expected_states, allowed, kernel.name());
      const std::int64_t compared = step.tokens() * width + step.state_elems();
      note_compared(Op::name, kernel.name(), name + ", " + one.name, compared);
      elements += compared;
    });
  }
  std::printf("%s: %lld elements compared\n", name.c_str(), static_cast<long long>(elements));
}

// Of Qwen3.5-35B-A3B and Qwen3-Next-80B-A3B; with decays of each key of Kimi Linear 48B-A3B, and with their floor of Ling 3.
TEST(HugeRecurrentLayers, DeltaNet) {
  for (const GatedDeltaNet::Spec& spec : {GatedDeltaNet::Spec{16, 32, 128, 128, true},
                                          {16, 32, 128, 128, false},
                                          {32, 32, 128, 128, false, true},
                                          {32, 32, 128, 128, false, true, -5.0f}}) {
    Random random(3);
    std::vector<float> rates = random.normals(spec.value_heads);
    std::ranges::transform(rates, rates.begin(), [&](float rate) {
      const float size = 0.02f + 0.2f * rate * rate;
      return spec.decay_floor < 0.0f ? size : -size;
    });
    const std::int64_t gates_of_row = spec.value_heads * (1 + spec.gates_of_head());
    const DeviceBuffer rate = uploaded(rates);
    const DeviceBuffer step_bias = uploaded(random.normals(spec.value_heads * spec.gates_of_head()));
    expect_all<GatedDeltaNet>(spec, spec.values(), to_string(spec), [&](const RecurrentStep& step) {
      auto qkv = std::make_shared<DeviceBuffer>(random_floats(step.tokens() * spec.input_width(), 81));
      auto gates = std::make_shared<DeviceBuffer>(random_floats(step.tokens() * gates_of_row, 82));
      return [&, gates_of_row, qkv, gates] {
        GatedDeltaNet::Args args;
        args.qkv = qkv->as<float>();
        args.qkv_stride = spec.input_width();
        args.beta = gates->as<float>();
        args.alpha = args.beta + spec.value_heads;
        args.gate_stride = gates_of_row;
        args.rate = rate.as<float>();
        args.step_bias = step_bias.as<float>();
        args.out_stride = spec.values();
        return args;
      };
    });
  }
}

// Of Granite 4.0-H Small, Nemotron-H 8B and Mamba-2 2.7B.
TEST(HugeRecurrentLayers, SsmScan) {
  for (const SsmScan::Spec& spec : {SsmScan::Spec{128, 64, 128, 1}, {128, 64, 128, 8}, {80, 64, 128, 1}}) {
    Random random(4);
    const DeviceBuffer a = uploaded(random.uniforms(spec.heads, -2.0f, -0.05f));
    const DeviceBuffer d = uploaded(random.normals(spec.heads));
    const DeviceBuffer dt_bias = uploaded(random.uniforms(spec.heads, -4.0f, 0.0f));
    expect_all<SsmScan>(spec, spec.inner(), to_string(spec), [&](const RecurrentStep& step) {
      auto x = std::make_shared<DeviceBuffer>(random_floats(step.tokens() * spec.input_width(), 83));
      auto z = std::make_shared<DeviceBuffer>(random_floats(step.tokens() * (spec.inner() + spec.heads), 84));
      return [&, x, z] {
        SsmScan::Args args;
        args.x = x->as<float>();
        args.z = z->as<float>();
        args.dt = args.z + spec.inner();
        args.stride = spec.inner() + spec.heads;
        args.a = a.as<float>();
        args.d = d.as<float>();
        args.dt_bias = dt_bias.as<float>();
        return args;
      };
    });
  }
}

// Of Jamba 1.5 Mini, Mamba 2.8B and Mamba 130M.
TEST(HugeRecurrentLayers, SelectiveScan) {
  for (const SelectiveScan::Spec& spec : {SelectiveScan::Spec{8192, 16}, {5120, 16}, {1536, 16}}) {
    Random random(6);
    const DeviceBuffer a = uploaded(random.uniforms(spec.state_elems(), -1.5f, -0.2f));
    const DeviceBuffer d = uploaded(random.normals(spec.channels));
    expect_all<SelectiveScan>(spec, spec.channels, to_string(spec), [&](const RecurrentStep& step) {
      auto x = std::make_shared<DeviceBuffer>(random_floats(step.tokens() * spec.channels, 86));
      auto gates = std::make_shared<DeviceBuffer>(random_floats(step.tokens() * 2 * spec.channels, 87));
      auto bc = std::make_shared<DeviceBuffer>(random_floats(step.tokens() * 2 * spec.state_size, 88));
      return [&, x, gates, bc] {
        SelectiveScan::Args args;
        args.x = x->as<float>();
        args.dt = gates->as<float>();
        args.z = args.dt + spec.channels;
        args.stride = 2 * spec.channels;
        args.b = bc->as<float>();
        args.c = args.b + spec.state_size;
        args.bc_stride = std::int64_t{2} * spec.state_size;
        args.a = a.as<float>();
        args.d = d.as<float>();
        return args;
      };
    });
  }
}

// Of the models with recurrent layers above, and with gates of LFM2.
TEST(HugeRecurrentLayers, CausalConv) {
  for (const CausalConv::Spec& spec :
       {CausalConv::Spec{8192, 4, false, true}, {8448, 4, false, true}, {2048, 3, true, false}}) {
    Random random(5);
    const DeviceBuffer weight = uploaded(random.normals(spec.channels * spec.taps));
    const DeviceBuffer bias = uploaded(random.normals(spec.channels));
    expect_all<CausalConv>(spec, spec.channels, to_string(spec), [&](const RecurrentStep& step) {
      auto x = std::make_shared<DeviceBuffer>(random_floats(step.tokens() * spec.input_width(), 85));
      return [&, x] {
        CausalConv::Args args;
        args.x = x->as<float>();
        args.x_stride = spec.input_width();
        args.weight = weight.as<float>();
        args.bias = bias.as<float>();
        return args;
      };
    });
  }
}

}  // namespace
}  // namespace rocmforge::test::at_size_recurrent_test
