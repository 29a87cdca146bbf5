#include <cstdlib>
#include <string>

#include "simulation/ranks/ranks.hpp"

namespace gleaner::simulation {

Result<std::unique_ptr<Ranks>> join_ranks() {
  for (const char* variable : {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE"}) {
    const char* size = std::getenv(variable);
    if (size == nullptr || std::string(size) == "1") continue;
    return fail(ErrorCode::bad_input,
                "this gleaner was built without MPI and cannot share an experiment out: install libopenmpi-dev and "
                "build again, or run it without mpirun");
  }
  return nullptr;
}

}  // namespace gleaner::simulation
