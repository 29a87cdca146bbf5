#pragma once
// The processes of one experiment under mpirun. Rank 0 runs the experiment; the others do jobs for it. A job is a
// function of its bytes, so that the result does not depend on who does it, nor on how many there are. mpi.cpp where
// MPI was found, alone.cpp elsewhere.

#include <functional>
#include <memory>
#include <optional>

#include "common/bytes.hpp"
#include "common/error.hpp"

namespace gleaner::simulation {

class Ranks {
 public:
  virtual ~Ranks() = default;  // rank 0: the others leave serve()
  virtual int rank() const = 0;
  virtual int size() const = 0;

  // Rank 0, any thread: a rank that is free does it, and the thread waits. Nothing: none is free.
  virtual std::optional<Bytes> ask(ByteView request) = 0;
  // Every other rank: answers, one request at a time, until rank 0 is done.
  virtual void serve(const std::function<Bytes(ByteView request)>& answer) = 0;
};

// Null: this process was not started by mpirun, or as its only one. An error where mpirun started several and this
// program was built without MPI: they would do the same, each for itself.
Result<std::unique_ptr<Ranks>> join_ranks();

}  // namespace gleaner::simulation
