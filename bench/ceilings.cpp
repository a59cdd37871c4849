#include "ceilings.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstring>

#if defined(__x86_64__)
#if !defined(__clang__)
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif
#include <immintrin.h>
#endif

namespace rocmforge::bench {
namespace {

double seconds() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

/// Keeps a result alive without cost.
template <class T>
void use(const T& value) {
  asm volatile("" : : "r"(&value) : "memory");
}

constexpr int chains = 12;               // more than latency times throughput of either instruction
constexpr std::int64_t rounds = 20'000;  // some 50 microseconds, less than a slice of another program

#if defined(__x86_64__)
__attribute__((target("avx512f,avx512vnni"))) void int8_loop() {
  __m512i sums[chains];
  for (__m512i& sum : sums) {
    sum = _mm512_setzero_si512();
  }
  __m512i a = _mm512_set1_epi8(3);
  __m512i b = _mm512_set1_epi8(5);
  for (std::int64_t i = 0; i < rounds; ++i) {
    asm volatile("" : "+v"(a), "+v"(b));
    for (__m512i& sum : sums) {
      sum = _mm512_dpbusd_epi32(sum, a, b);
    }
  }
  for (const __m512i& sum : sums) {
    use(sum);
  }
}

__attribute__((target("avx512f"))) void f32_loop() {
  __m512 sums[chains];
  for (__m512& sum : sums) {
    sum = _mm512_setzero_ps();
  }
  __m512 a = _mm512_set1_ps(3);
  __m512 b = _mm512_set1_ps(5);
  for (std::int64_t i = 0; i < rounds; ++i) {
    asm volatile("" : "+v"(a), "+v"(b));
    for (__m512& sum : sums) {
      sum = _mm512_fmadd_ps(a, b, sum);
    }
  }
  for (const __m512& sum : sums) {
    use(sum);
  }
}

__attribute__((target("avx512f"))) void read_lines(const std::byte* memory, std::size_t bytes) {
  __m512i sums[4] = {_mm512_setzero_si512(), _mm512_setzero_si512(), _mm512_setzero_si512(), _mm512_setzero_si512()};
  for (std::size_t at = 0; at + 256 <= bytes; at += 256) {
    for (int i = 0; i < 4; ++i) {
      _mm_prefetch(reinterpret_cast<const char*>(memory + at + 64 * static_cast<std::size_t>(i) + 4096), _MM_HINT_T0);
      sums[i] = _mm512_add_epi64(sums[i], _mm512_loadu_si512(memory + at + 64 * static_cast<std::size_t>(i)));
    }
  }
  use(sums);
}

bool has_avx512() { return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vnni"); }
#else
void int8_loop() {}
void f32_loop() {}
void read_lines(const std::byte*, std::size_t) {}
bool has_avx512() { return false; }
#endif

void read_words(const std::byte* memory, std::size_t bytes) {
  std::uint64_t sums[8] = {};
  for (std::size_t at = 0; at + 64 <= bytes; at += 64) {
    std::uint64_t words[8];
    std::memcpy(words, memory + at, sizeof words);
    for (int i = 0; i < 8; ++i) {
      sums[i] += words[i];
    }
  }
  use(sums);
}

/// The fastest of many short tries: other programs on the machine can only slow a try down.
constexpr int tries = 200;

double peak(ThreadPool& pool, void (*loop)()) {
  if (!has_avx512()) {
    return 0;
  }
  double best = 1e9;
  for (int i = 0; i < tries; ++i) {
    const double start = seconds();
    pool.run([&](int) { loop(); });
    best = std::min(best, seconds() - start);
  }
  return static_cast<double>(rounds) * chains * pool.num_threads() / best;
}

}  // namespace

double read_bandwidth(std::span<const std::byte> memory, ThreadPool& pool) {
  constexpr std::size_t piece = 64 * 1024;
  constexpr std::size_t stretch = 64 * piece;
  const auto read = has_avx512() ? read_lines : read_words;
  double best = 1e9;
  for (std::size_t at = 0; at + stretch <= memory.size(); at += stretch) {
    std::atomic<std::size_t> next{0};
    const double start = seconds();
    pool.run([&](int) {
      for (std::size_t begin = next.fetch_add(piece); begin < stretch; begin = next.fetch_add(piece)) {
        read(memory.data() + at + begin, piece);
      }
    });
    best = std::min(best, seconds() - start);
  }
  return static_cast<double>(stretch) / best;
}

double int8_peak(ThreadPool& pool) { return 64 * peak(pool, int8_loop); }
double f32_peak(ThreadPool& pool) { return 16 * peak(pool, f32_loop); }

}  // namespace rocmforge::bench
