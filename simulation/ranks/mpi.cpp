#include <mpi.h>

#include <chrono>
#include <cstdlib>
#include <mutex>
#include <thread>
#include <vector>

#include "common/check.hpp"
#include "simulation/ranks/ranks.hpp"

namespace gleaner::simulation {
namespace {

enum Tag : int { kRequest = 1, kReply = 2, kEnd = 3 };

// MPI's own waiting keeps a core busy, which somebody trains on here.
class Patience {
 public:
  void wait() {
    std::this_thread::sleep_for(wait_);
    wait_ = std::min<std::chrono::microseconds>(wait_ * 2, std::chrono::milliseconds(1));
  }

 private:
  std::chrono::microseconds wait_{20};
};

class MpiRanks final : public Ranks {
 public:
  MpiRanks() {
    MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
    MPI_Comm_size(MPI_COMM_WORLD, &size_);
    for (int other = size_ - 1; other > 0 && rank_ == 0; --other) free_.push_back(other);
  }

  ~MpiRanks() override {
    if (rank_ == 0) {
      for (int other = 1; other < size_; ++other) MPI_Send(nullptr, 0, MPI_BYTE, other, kEnd, MPI_COMM_WORLD);
    }
    MPI_Finalize();
  }

  int rank() const override { return rank_; }
  int size() const override { return size_; }

  std::optional<Bytes> ask(ByteView request) override {
    int other = 0;
    {
      const std::scoped_lock lock(mutex_);
      if (free_.empty()) return std::nullopt;
      other = free_.back();
      free_.pop_back();
    }
    send(request, other, kRequest);
    MPI_Status status;
    Bytes reply = receive(other, kReply, status);
    const std::scoped_lock lock(mutex_);
    free_.push_back(other);
    return reply;
  }

  void serve(const std::function<Bytes(ByteView)>& answer) override {
    for (;;) {
      MPI_Status status;
      const Bytes request = receive(0, MPI_ANY_TAG, status);
      if (status.MPI_TAG == kEnd) return;
      send(answer(request), 0, kReply);
    }
  }

 private:
  // One thread at a time in MPI, and none for long: that much every MPI can do.
  void send(ByteView bytes, int to, Tag tag) {
    GLEANER_CHECK(bytes.size() <= INT32_MAX);
    MPI_Request sending;
    {
      const std::scoped_lock lock(mutex_);
      MPI_Isend(bytes.data(), static_cast<int>(bytes.size()), MPI_BYTE, to, tag, MPI_COMM_WORLD, &sending);
    }
    for (Patience patience;; patience.wait()) {
      const std::scoped_lock lock(mutex_);
      int done = 0;
      MPI_Test(&sending, &done, MPI_STATUS_IGNORE);
      if (done != 0) return;
    }
  }

  Bytes receive(int from, int tag, MPI_Status& status) {
    for (Patience patience;; patience.wait()) {
      const std::scoped_lock lock(mutex_);
      int there = 0;
      MPI_Message message;
      MPI_Improbe(from, tag, MPI_COMM_WORLD, &there, &message, &status);
      if (there == 0) continue;
      int bytes = 0;
      MPI_Get_count(&status, MPI_BYTE, &bytes);
      Bytes body(static_cast<std::size_t>(bytes));
      MPI_Mrecv(body.data(), bytes, MPI_BYTE, &message, MPI_STATUS_IGNORE);
      return body;
    }
  }

  int rank_ = 0;
  int size_ = 1;
  std::mutex mutex_;
  std::vector<int> free_;
};

}  // namespace

Result<std::unique_ptr<Ranks>> join_ranks() {
  const bool under_mpirun = std::getenv("OMPI_COMM_WORLD_SIZE") != nullptr || std::getenv("PMI_SIZE") != nullptr;
  if (!under_mpirun) return nullptr;
  int provided = 0;
  if (MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &provided) != MPI_SUCCESS ||
      provided < MPI_THREAD_SERIALIZED)
    return fail(ErrorCode::fatal, "MPI cannot be used from several threads here");
  auto ranks = std::make_unique<MpiRanks>();
  if (ranks->size() == 1) return nullptr;
  return ranks;
}

}  // namespace gleaner::simulation
