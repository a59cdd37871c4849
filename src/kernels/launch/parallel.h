#pragma once

#include "ops/registry.h"

namespace rocmforge {

/// Calls job(begin, end) for ranges that cover [0, count): on the calling thread when there is only one range (waking
/// threads costs more) or no pool.
template <class Job>
void for_each_range(const ExecutionContext& context, std::int64_t count, std::int64_t grain, const Job& job) {
  if (context.pool == nullptr || context.pool->num_threads() == 1 || count <= grain) {
    job(std::int64_t{0}, count);
  } else {
    context.pool->parallel_for(count, grain, job);
  }
}

/// Calls job(s, head) for every head of every sequence.
template <class Job>
void for_each_head(const ExecutionContext& context, std::int64_t sequences, std::int64_t heads, const Job& job) {
  for_each_range(context, sequences * heads, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      job(i / heads, i % heads);
    }
  });
}

}  // namespace rocmforge
