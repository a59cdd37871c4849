// Kernels for the tests of tools/cost/amd_cost: each with a variant that is slower on purpose. Compiled without headers and
// libraries.
#define KERNEL extern "C" __attribute__((global, amdgpu_flat_work_group_size(64, 256)))
using uint = unsigned;
static __attribute__((device)) uint lane() { return __builtin_amdgcn_workitem_id_x(); }
static __attribute__((device)) void barrier() {
  __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup");
  __builtin_amdgcn_s_barrier();
  __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup");
}

// Reads of shared memory `stride` words apart: 1 touches every bank once, 32 the same bank by every lane.
template <int stride>
static __attribute__((device)) void lds_reads(float* out, int count) {
  __attribute__((shared)) static float values[256 * 33];
  for (uint i = lane(); i < 256 * 33; i += 256) {
    values[i] = out[i];
  }
  barrier();
  float sum = 0;
  auto* from = (const volatile __attribute__((address_space(3))) float*)values;
  for (int i = 0; i < count; ++i) {
    sum += from[(lane() % 32) * stride + (i & 7)];
  }
  out[lane()] = sum;
}
KERNEL void lds_free(float* out, int count) { lds_reads<1>(out, count); }
KERNEL void lds_conflicts(float* out, int count) { lds_reads<32>(out, count); }

// The same multiply-adds in one chain or in eight that do not depend on each other.
template <int chains>
static __attribute__((device)) void multiply_adds(float* out, int count) {
  float sums[chains];
  for (int c = 0; c < chains; ++c) {
    sums[c] = out[c];
  }
  const float x = out[lane()];
  for (int i = 0; i < count; ++i) {
#pragma unroll
    for (int j = 0; j < 32; ++j) {
      sums[j % chains] = __builtin_fmaf(sums[j % chains], x, 1.0f);
      asm volatile("" : "+v"(sums[j % chains]));
    }
  }
  float sum = 0;
  for (int c = 0; c < chains; ++c) {
    sum += sums[c];
  }
  out[lane()] = sum;
}
KERNEL void chain(float* out, int count) { multiply_adds<1>(out, count); }
KERNEL void chains(float* out, int count) { multiply_adds<8>(out, count); }

// A stream of reads; the second uses so much shared memory that a compute unit holds one work-group, with one wave for each
// SIMD.
template <int lds>
static __attribute__((device)) void stream(const float* in, float* out, int count) {
  __attribute__((shared)) static float storage[lds];
  auto* room = (volatile __attribute__((address_space(3))) float*)storage;
  float sum = 0;
  for (int i = 0; i < count; ++i) {
    sum += in[(__builtin_amdgcn_workgroup_id_x() * count + i) * 128 + lane()];
  }
  room[lane()] = sum;
  out[lane()] = room[lane() ^ 1];
}
KERNEL void many_waves(const float* in, float* out, int count) { stream<256>(in, out, count); }
KERNEL void one_wave(const float* in, float* out, int count) { stream<16000>(in, out, count); }

// The first wave of a group has more work than the others before all waves read; each group of a column reads data of its
// own.
KERNEL void parting(const float* in, float* out, int count) {
  if (__builtin_amdgcn_readfirstlane(lane() / 64) == 0) {
    for (int i = 0; i < count; ++i) {
      out[lane()] = static_cast<float>(i);
    }
  }
  float sum = 0;
  for (int i = 0; i < count; ++i) {
    sum += in[(__builtin_amdgcn_workgroup_id_y() * count + i) * 256 + lane()];
  }
  out[lane()] = sum;
}

// Neighbouring lanes read neighbouring words, or words a line apart.
KERNEL void coalesced(const float* in, float* out, int count) {
  float sum = 0;
  for (int i = 0; i < count; ++i) {
    sum += in[i * 256 + lane()];
  }
  out[lane()] = sum;
}
KERNEL void scattered(const float* in, float* out, int count) {
  float sum = 0;
  for (int i = 0; i < count; ++i) {
    sum += in[(i * 256 + lane()) * 32];
  }
  out[lane()] = sum;
}

// A loop in strides of the grid: its steps depend on the size of a work-group, which is read as 16 bits.
KERNEL void strided(float* out, int count, int groups) {
  const uint threads = __builtin_amdgcn_workgroup_size_x();
  const uint stride = groups * threads;
#pragma unroll 1
  for (uint i = __builtin_amdgcn_workgroup_id_x() * threads + lane(); i < (uint)count; i += stride) {
    out[i] = 1.0f;
  }
}

// Every wave's fence of the device, or that of one wave behind a barrier.
template <bool each>
static __attribute__((device)) void fences(float* out) {
  out[__builtin_amdgcn_workgroup_id_x() * 256 + lane()] = 1;
  barrier();
  if (each || lane() < 32) {
    __builtin_amdgcn_fence(__ATOMIC_SEQ_CST, "agent");
  }
  out[lane()] = 2;
}
KERNEL void fence_of_one(float* out, int) { fences<false>(out); }
KERNEL void fence_of_each(float* out, int) { fences<true>(out); }

// A table that all groups read.
KERNEL void shared_table(const float* table, float* out, int count) {
  float sum = 0;
  for (int i = 0; i < count; ++i) {
    sum += table[i * 256 + lane()];
  }
  out[__builtin_amdgcn_workgroup_id_x() * 256 + lane()] = sum;
}
