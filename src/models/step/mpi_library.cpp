#include "models/step/mpi_library.h"

#include <array>

namespace rocmforge {
namespace {

// Open MPI 3 to 5. MPICH's is libmpi.so.12.
constexpr std::array names{"libmpi.so.40"};

MpiLibrary::Handle object(const RuntimeLibrary& library, const char* name) {
  void* const found = library.find(name);
  if (found == nullptr) {
    throw Error(fmt::format("{} has no {}: it is not Open MPI", library.path(), name));
  }
  return found;
}

}  // namespace

// Its plugins look for symbols among those of the process.
MpiLibrary::MpiLibrary()
    : library(names, RuntimeLibrary::Symbols::of_process),
      world(object(library, "ompi_mpi_comm_world")),
      byte(object(library, "ompi_mpi_byte")),
      no_info(object(library, "ompi_mpi_info_null")),
      init_thread(library, "MPI_Init_thread"),
      finalize(library, "MPI_Finalize"),
      abort_job(library, "MPI_Abort"),
      comm_rank(library, "MPI_Comm_rank"),
      comm_size(library, "MPI_Comm_size"),
      comm_dup(library, "MPI_Comm_dup"),
      comm_split_type(library, "MPI_Comm_split_type"),
      isend(library, "MPI_Isend"),
      irecv(library, "MPI_Irecv"),
      ibcast(library, "MPI_Ibcast"),
      iallgather(library, "MPI_Iallgather"),
      iprobe(library, "MPI_Iprobe"),
      test(library, "MPI_Test") {}

std::string MpiLibrary::describe(int code) const { return fmt::format("error {} of {}", code, library.path()); }

}  // namespace rocmforge
