#pragma once

#include <cstdint>

/// The behaviour of the fake cuBLASLt, and its counts. It multiplies in host memory.
struct FakeBlas {
  bool refuses_handles = false;
  bool fails = false;             ///< every product
  bool is_wrong = false;          ///< every product
  std::int64_t refused_rows = 0;  ///< no algorithm for weights with so many rows
  int products = 0;
  int searches = 0;      ///< for an algorithm
  int descriptions = 0;  ///< of operations, made and not destroyed
};

/// Exported by the library as "fake_blas".
using FakeBlasEntry = FakeBlas* (*)();
