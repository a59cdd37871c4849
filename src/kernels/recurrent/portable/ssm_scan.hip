// The scan of Mamba-2: ssm_scan_SIZE for states of up to SIZE elements a row. The state stays in registers while the rows of
// a sequence go by: eight lanes share a row of it, and a thread has its part of one to four rows. A decode step is one read
// and one write of the state, which is what bounds it. In a prompt B and C of eight rows are staged in shared memory, and
// those of the next eight are fetched meanwhile. Sums have the same order in a step of one row and of many.

#include "kernels/recurrent/portable/chunk_scan_args.h"
#include "kernels/recurrent/portable/ssm_scan_args.h"
#include "kernels/tile/activation.h"
#include "kernels/tile/elementwise.h"

using rocmforge::gpu::SsmScanArgs;

namespace rocmforge::gpu {
namespace {

constexpr int lanes = ssm_scan_lanes;
constexpr int tile = ssm_scan_tile;

/// The values that a thread loads of the next rows: its share of B and C, and the other inputs of the row with its lane's
/// number.
template <int size>
struct ScanRows {
  float shared[tile * 2 * size / ssm_scan_threads];
  float dt;
  float x[ssm_scan_rows(size)];
  float z[ssm_scan_rows(size)];
};

/// A run of rows of the state of one head, and the rows of the step of one sequence.
template <int size>
struct Scan {
  static constexpr int elems = ssm_scan_elems(size);
  static constexpr int rows = ssm_scan_rows(size);

  const SsmScanArgs& args;
  int head;
  int first_row;             ///< of the thread; its others are ssm_scan_threads / lanes apart
  int lane;                  ///< among those that share a row
  int first;                 ///< row of the step
  int count;                 ///< rows of the sequence that are computed now, from its first in the step
  float state[rows][elems];  ///< element 4 j + i is (4 lanes) j + 4 lane + i of the row

  __device__ int row(int r) const { return first_row + r * (ssm_scan_threads / lanes); }
  /// Rows after the head's last are computed as the last row, and not stored.
  __device__ int known_row(int r) const { return min(row(r), args.head_dim - 1); }
  __device__ static int first_elem(int lane, int j) { return (j * lanes + lane) * 4; }
  __device__ float* slot(std::int32_t index, int row, int elem) const {
    const std::int64_t at = (std::int64_t{head} * args.head_dim + row) * args.state_size + elem;
    return reinterpret_cast<float*>(args.states + index * args.slot_stride) + at;
  }

  /// Elements after the end of the row are read within the row: they are multiplied by zeros of B and C, and not stored.
  __device__ void load_state(std::int32_t index) {
    if (index < 0) {
      return;
    }
#pragma unroll
    for (int r = 0; r < rows; ++r) {
#pragma unroll
      for (int j = 0; j < elems / 4; ++j) {
        const int elem = min(first_elem(lane, j), args.state_size - 4);
        const Floats<4> four = load<4>(slot(index, known_row(r), elem), 0);
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          state[r][j * 4 + i] = four.values[i];
        }
      }
    }
  }

  __device__ void store_state(std::int32_t index) const {
#pragma unroll
    for (int r = 0; r < rows; ++r) {
      if (row(r) < args.head_dim) {
#pragma unroll
        for (int j = 0; j < elems / 4; ++j) {
          if (const int elem = first_elem(lane, j); elem < args.state_size) {
            const float* own = state[r] + j * 4;
            store(slot(index, row(r), elem), 0, Floats<4>{{own[0], own[1], own[2], own[3]}});
          }
        }
      }
    }
  }

  /// Loads the rows of the step from `base` on. Rows after the last one are read as the last; their results are not used.
  __device__ ScanRows<size> fetch(int base) const {
    ScanRows<size> next;
    const std::int64_t inner = std::int64_t{args.heads} * args.head_dim;
    const int group = head / (args.heads / args.groups);
    constexpr int width = 2 * size;  // B and C of a row
    const int column = thread_index() % width;
#pragma unroll
    for (int i = 0; i < tile * width / ssm_scan_threads; ++i) {
      const int t = min(base + i * ssm_scan_threads / width + thread_index() / width, count - 1);
      const int at = i * ssm_scan_threads % width + column;
      const int n = at % size;
      const std::int64_t from =
          inner + std::int64_t{at / size * args.groups + group} * args.state_size + min(n, args.state_size - 1);
      const float value = args.x[std::int64_t{first + t} * args.x_stride + from];
      next.shared[i] = n < args.state_size ? value : 0.0f;
    }
    const std::int64_t t = std::int64_t{first + min(base + lane, count - 1)};
    next.dt = args.dt[t * args.stride + head];
#pragma unroll
    for (int r = 0; r < rows; ++r) {
      const std::int64_t from = std::int64_t{head} * args.head_dim + known_row(r);
      next.x[r] = args.x[t * args.x_stride + from];
      next.z[r] = args.z[t * args.stride + from];
    }
    return next;
  }

  /// Computes one row of the step, with B and C in shared memory. Returns the products with C in `sums`.
  __device__ void advance(const float* b, float decay, const float (&inputs)[rows], float (&sums)[rows]) {
    const float* c = b + size;
#pragma unroll
    for (int r = 0; r < rows; ++r) {
      sums[r] = 0.0f;
    }
#pragma unroll
    for (int j = 0; j < elems / 4; ++j) {
      const Floats<4> own_b = load<4>(b, j * lanes + lane);
      const Floats<4> own_c = load<4>(c, j * lanes + lane);
#pragma unroll
      for (int r = 0; r < rows; ++r) {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          float& element = state[r][j * 4 + i];
          element = fmaf(decay, element, inputs[r] * own_b.values[i]);
          sums[r] = fmaf(element, own_c.values[i], sums[r]);
        }
      }
    }
#pragma unroll
    for (int r = 0; r < rows; ++r) {
      sums[r] = wave_reduce<Sum, lanes>(sums[r]);
    }
  }

  /// Computes the rows of a tile, staged at `shared`; `own` holds the inputs of the row with the lane's number.
  __device__ void run_tile(const float* shared, int base, const ScanRows<size>& own) {
    const float raw = own.dt + args.dt_bias[head];
    const float step = raw > 20.0f ? raw : log1pf(expf(raw));
    const float decay = expf(step * args.a[head]);
    const int group_lane = lane_index() & ~(lanes - 1);
    float results[rows] = {};
#pragma unroll 1
    for (int i = 0; i < tile && base + i < count; ++i) {
      float inputs[rows];
      float sums[rows];
#pragma unroll
      for (int r = 0; r < rows; ++r) {
        inputs[r] = shuffle(step * own.x[r], group_lane + i);
      }
      advance(shared + i * 2 * size, shuffle(decay, group_lane + i), inputs, sums);
#pragma unroll
      for (int r = 0; r < rows; ++r) {
        results[r] = lane == i ? sums[r] : results[r];
      }
    }
    if (base + lane < count) {
      float* out = args.out + (std::int64_t{first + base + lane} * args.heads + head) * args.head_dim;
#pragma unroll
      for (int r = 0; r < rows; ++r) {
        if (row(r) < args.head_dim) {
          out[row(r)] = (results[r] + args.d[head] * own.x[r]) * Silu::value(own.z[r]);
        }
      }
    }
  }
};

/// Rows of the step from `base` to scan.count.
template <int size>
__device__ void scan_rows(Scan<size>& scan, int base, float* shared) {
  constexpr int per_thread = tile * 2 * size / ssm_scan_threads;
  ScanRows<size> next = scan.fetch(base);
  for (; base < scan.count; base += tile) {
    const ScanRows<size> own = next;
    __syncthreads();
#pragma unroll
    for (int i = 0; i < per_thread; ++i) {
      shared[i * ssm_scan_threads + thread_index()] = own.shared[i];
    }
    __syncthreads();
    if (base + tile < scan.count) {
      next = scan.fetch(base + tile);
    }
    scan.run_tile(shared, base, own);
  }
}

template <int size>
__device__ void scan_run(const SsmScanArgs& args, int run, int sequence, float* shared) {
  const StateSlots slots = args.slots[sequence];
  const int first = args.query_offsets[sequence];
  const int count = args.query_offsets[sequence + 1] - first;
  if (count >= chunk_least_rows) {
    wait_for_predecessor();
    return;  // scanned in chunks
  }
  const int first_row = run % args.runs * ssm_scan_group_rows(size) + thread_index() / lanes;
  Scan<size> scan{args, run / args.runs, first_row, thread_index() % lanes, first, 0, {}};
  scan.load_state(slots.read);  // what an earlier step wrote
  wait_for_predecessor();
#pragma unroll 1
  for (int part = slots.keep >= 0 ? 0 : 1; part < 2; ++part) {  // the rows up to the state that is kept, then the others
    const int base = scan.count;
    scan.count = part == 0 ? slots.keep_rows : count;
    scan_rows(scan, base, shared);
    if (const int slot = part == 0 ? slots.keep : slots.write; slot >= 0) {
      scan.store_state(slot);
    }
  }
}

template <int size>
__device__ void ssm_scan(const SsmScanArgs& args) {
  __shared__ Floats<4> shared[tile * 2 * size / 4];
  release_successor();
  scan_run<size>(args, static_cast<int>(blockIdx.x), static_cast<int>(blockIdx.y), shared[0].values);
}

}  // namespace
}  // namespace rocmforge::gpu

#define ROCMFORGE_SSM_SCAN(size)                                                                           \
  ROCMFORGE_KERNEL __launch_bounds__(rocmforge::gpu::ssm_scan_threads) ssm_scan_##size(SsmScanArgs args) { \
    rocmforge::gpu::ssm_scan<size>(args);                                                                  \
  }
ROCMFORGE_SSM_SCAN(32)
ROCMFORGE_SSM_SCAN(64)
ROCMFORGE_SSM_SCAN(128)
ROCMFORGE_SSM_SCAN(256)
