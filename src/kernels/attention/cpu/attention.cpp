#include <fmt/format.h>

#include <algorithm>
#include <atomic>

#include "kernels/attention/cpu/attention_units.h"
#include "kernels/attention/kernels.h"
#include "kernels/check/arguments/arguments.h"
#include "kernels/launch/cpu/isa.h"

namespace rocmforge {
namespace {

/// One call: its units, and the memory in which threads compute them.
struct AttentionCall {
  const BodyTable& body;
  const AttentionUnits& units;
  const AttentionWorkspace& workspace;
  ThreadPool* pool;  ///< null when the calling thread is alone
  int num_threads;

  /// Threads take whole units, one after another.
  void run_by_unit() const {
    std::atomic<std::int64_t> next{0};
    const auto job = [&](int thread) {
      std::int64_t mine = next.fetch_add(1);
      for (UnitCursor cursor(units); !cursor.at_end(); cursor.next()) {
        if (cursor.number() == mine) {
          run_unit(cursor.unit(), thread);
          mine = next.fetch_add(1);
        }
      }
    };
    if (pool == nullptr) {
      job(0);
    } else {
      pool->run_with_free_threads(job);
    }
  }

  void run_unit(const AttentionUnit& unit, int thread) const {
    const AttentionScratch scratch = workspace.scratch(thread);
    const AttentionState state = workspace.thread_state(thread);
    const AttentionState part = workspace.thread_part(thread);
    const std::int32_t rows = unit.row_end - unit.row_begin;
    const ChunkRange chunks = visible_chunks(unit);
    body.attention_load(unit, scratch);
    for (std::int32_t row = 0; row < rows; ++row) {
      body.attention_begin(unit, row, state);
    }
    for (std::int32_t chunk = chunks.first; chunk < chunks.end; ++chunk) {
      body.attention_chunk(unit, scratch, chunk, part);
      for (std::int32_t row = 0; row < rows; ++row) {
        body.attention_fold(unit, row, state, part);
      }
    }
    for (std::int32_t row = 0; row < rows; ++row) {
      body.attention_finish(unit, row, state);
    }
  }

  /// Threads take chunks of any unit; after each round they fold its parts, each thread the same rows of every unit.
  void run_by_chunk(std::int64_t num_chunks) const {
    const std::int64_t round = round_chunks_per_thread * num_threads;
    std::atomic<std::int64_t> next{0};
    pool->run([&](int thread) {
      UnitCursor compute(units);
      UnitCursor fold(units);
      std::int64_t compute_start = 0;  // number of the first chunk of the cursor's unit
      std::int64_t fold_start = 0;
      std::int64_t loaded = -1;
      for (std::int64_t begin = 0; begin < num_chunks; begin += round) {
        const std::int64_t end = std::min(begin + round, num_chunks);
        for (std::int64_t item = take(next, end); item < end; item = take(next, end)) {
          while (item >= compute_start + visible_chunks(compute.unit()).count()) {
            compute_start += visible_chunks(compute.unit()).count();
            compute.next();
          }
          const AttentionUnit unit = compute.unit();
          if (loaded != compute.number()) {
            body.attention_load(unit, workspace.scratch(thread));
            loaded = compute.number();
          }
          const auto chunk = visible_chunks(unit).first + static_cast<std::int32_t>(item - compute_start);
          body.attention_chunk(unit, workspace.scratch(thread), chunk, workspace.chunk_part(item - begin));
        }
        pool->barrier();
        while (!fold.at_end() && fold_start < end) {
          const std::int64_t unit_end = fold_start + visible_chunks(fold.unit()).count();
          fold_rows(fold, thread, {fold_start, unit_end}, {begin, end});
          if (unit_end > end) {
            break;  // the next round goes on with this unit
          }
          fold_start = unit_end;
          fold.next();
        }
        pool->barrier();
      }
    });
  }

 private:
  /// Numbers of chunks in the call: [begin, end).
  struct Items {
    std::int64_t begin;
    std::int64_t end;
  };

  /// The next number below `end`, or `end` when this round has no more.
  static std::int64_t take(std::atomic<std::int64_t>& next, std::int64_t end) {
    std::int64_t item = next.load();
    while (item < end && !next.compare_exchange_weak(item, item + 1)) {
    }
    return std::min(item, end);
  }

  void fold_rows(const UnitCursor& cursor, int thread, Items unit_items, Items round) const {
    const AttentionUnit unit = cursor.unit();
    const AttentionState state = workspace.unit_state(cursor.number());
    for (std::int32_t row = thread; row < unit.row_end - unit.row_begin; row += num_threads) {
      if (unit_items.begin >= round.begin) {
        body.attention_begin(unit, row, state);
      }
      const std::int64_t last = std::min(unit_items.end, round.end);
      for (std::int64_t item = std::max(unit_items.begin, round.begin); item < last; ++item) {
        body.attention_fold(unit, row, state, workspace.chunk_part(item - round.begin));
      }
      if (unit_items.end <= round.end) {
        body.attention_finish(unit, row, state);
      }
    }
  }
};

class CpuAttention final : public CpuKernel<AttentionBackend> {
 public:
  using CpuKernel::CpuKernel;

  [[nodiscard]] Support supports(const Attention::Spec& spec, const DeviceInfo& device) const override {
    if (Support support = check_device(device); !support.ok) {
      return support;
    }
    if (spec.io_dtype != DType::f32) {
      return Support::no(fmt::format("queries and output of type {}, not F32", rocmforge::name(spec.io_dtype)));
    }
    if (spec.mask) {
      return Support::no("no additive mask");
    }
    return check_spec(spec);
  }

  /// K by dimension, so that a vector holds the scores of neighbouring keys; V by token, so that a vector holds neighbouring
  /// sums. A latent plane, which is both, by token: it becomes floats in both orders once for all rows of a unit.
  [[nodiscard]] KvLayout layout(const Attention::Spec& spec) const override {
    return {.dtype = spec.kv_dtype,
            .block_tokens = 32,
            .kv_heads = spec.kv_heads,
            .head_dim = spec.head_dim,
            .k_order = spec.value_dim > 0 ? KvOrder::token_major : KvOrder::dim_major,
            .v_order = KvOrder::token_major,
            .value_dim = spec.value_dim};
  }

  [[nodiscard]] std::size_t workspace_bytes(const Attention::Spec& spec, const AttentionLimits& limits) const override {
    return AttentionWorkspace(nullptr, spec, unit_rows(spec, limits.max_tokens), limits.num_threads).bytes();
  }

  void run(const Attention::Spec& spec, const KvLayout& layout, const Attention::Args& args,
           ExecutionContext& context) const override {
    check_arguments(spec, layout, args);
    const KvOrder k_order = layout.is_latent() ? KvOrder::token_major : KvOrder::dim_major;
    check(layout.k_order == k_order && layout.v_order == KvOrder::token_major,
          "attention: this backend reads K by dimension and V, or a latent plane, by token");
    check(layout.block_tokens >= 16, "attention: this backend needs blocks of at least 16 tokens");
    check(args.workspace != nullptr, "attention: workspace is null");
    check(args.dense.k == nullptr, "attention: this backend reads a paged cache only");
    for (std::int32_t s = 0; s < args.batch.num_sequences; ++s) {
      check(args.batch.kv_lengths[s] > 0 || args.batch.query_offsets[s] == args.batch.query_offsets[s + 1],
            "attention: this backend takes no padding");
    }
    if (args.batch.num_tokens == 0) {
      return;
    }
    const int num_threads = context.pool != nullptr ? context.pool->num_threads() : 1;
    const AttentionUnits units(spec, layout, args);
    const AttentionWorkspace workspace(static_cast<float*>(args.workspace), spec, unit_rows(spec, args.batch.num_tokens),
                                       num_threads);
    const AttentionSchedule schedule = make_schedule(units, num_threads);
    const bool alone = num_threads == 1 || schedule.num_units == 1;
    const AttentionCall call{body(), units, workspace, alone && !schedule.by_chunk ? nullptr : context.pool, num_threads};
    if (schedule.by_chunk) {
      call.run_by_chunk(schedule.num_chunks);
    } else {
      call.run_by_unit();
    }
  }

 private:
  static std::int64_t unit_rows(const Attention::Spec& spec, std::int64_t tokens) {
    return std::min<std::int64_t>(max_unit_rows, tokens * (spec.q_heads / spec.kv_heads));
  }
};

}  // namespace

std::unique_ptr<AttentionBackend> make_cpu_attention(const CpuBodies& bodies) {
  return std::make_unique<CpuAttention>(bodies);
}

}  // namespace rocmforge
