#pragma once

#include <cstddef>

#include "device/runtime_library.h"

namespace rocmforge {

/// The calls of Open MPI that ranks need, found in libmpi when the program runs. Its handles are addresses: those of its own
/// objects stand for the types and the communicator of all (mpi.h of Open MPI 4 and 5). Other implementations, whose
/// handles are numbers (MPICH), have another libmpi and are not opened.
struct MpiLibrary {
  using Handle = void*;

  /// Throws Error where there is no libmpi of Open MPI.
  MpiLibrary();

  RuntimeLibrary library;
  Handle world;  ///< MPI_COMM_WORLD
  Handle byte;   ///< MPI_BYTE
  Handle no_info;

  static constexpr int serialized = 2;         ///< MPI_THREAD_SERIALIZED
  static constexpr int type_shared = 0;        ///< MPI_COMM_TYPE_SHARED
  static constexpr void* no_status = nullptr;  ///< MPI_STATUS_IGNORE

  Entry<int(int*, char***, int, int*)> init_thread;
  Entry<int()> finalize;
  Entry<int(Handle, int)> abort_job;
  Entry<int(Handle, int*)> comm_rank;
  Entry<int(Handle, int*)> comm_size;
  Entry<int(Handle, Handle*)> comm_dup;
  Entry<int(Handle, int, int, Handle, Handle*)> comm_split_type;
  Entry<int(const void*, int, Handle, int, int, Handle, Handle*)> isend;
  Entry<int(void*, int, Handle, int, int, Handle, Handle*)> irecv;
  Entry<int(void*, int, Handle, int, Handle, Handle*)> ibcast;
  Entry<int(const void*, int, Handle, void*, int, Handle, Handle, Handle*)> iallgather;
  Entry<int(int, int, Handle, int*, void*)> iprobe;
  Entry<int(Handle*, int*, void*)> test;

  /// What call() says of a failure.
  [[nodiscard]] std::string describe(int code) const;
};

}  // namespace rocmforge
