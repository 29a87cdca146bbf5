#pragma once
// What the virtual devices keep of a run: for each that ever took part, the bytes of its state, as a daemon's state
// file has them. In memory up to a budget; beyond it the longest unused lie in one file, which is also what a
// checkpoint leaves behind. Nothing is ever dropped. load() and has() from any thread; all else from the owner's.
//
// The file is a log: a record is u64 device, u64 length, u64 XXH3-64 of the bytes, the bytes; the newest of a device
// counts. Older ones give their room back to the disk as holes in the file, as soon as no checkpoint needs them; where
// the file system makes no holes, a checkpoint writes the file anew when most of it is old.

#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "common/bytes.hpp"
#include "common/error.hpp"

namespace gleaner::simulation {

class DeviceStates {
 public:
  // What a checkpoint says of the file: with these they are found again.
  struct Manifest {
    std::string file;  // its name in the folder; empty: nobody took part yet
    std::uint64_t bytes = 0;
  };

  // folder: an existing one, for the file, which is made when it is needed.
  DeviceStates(std::string folder, std::uint64_t budget_bytes);
  DeviceStates(const DeviceStates&) = delete;
  DeviceStates& operator=(const DeviceStates&) = delete;
  ~DeviceStates();

  // As the checkpoint left them; what was written after it is cut off. corrupt names the file and the place.
  Status restore(const Manifest& manifest);

  bool has(std::uint32_t device) const;
  // Null: the device never took part. fatal: the file cannot be read; corrupt: it is damaged.
  Result<std::shared_ptr<const Bytes>> load(std::uint32_t device) const;
  // no_space: there is no room in memory and none on the disk; the old state stays.
  Status save(std::uint32_t device, std::shared_ptr<const Bytes> state);
  // Everything is in the file and the file is on the disk. Files that no manifest needs any more are removed when the
  // next one is made, so that the one before stays good until this one is known.
  Result<Manifest> checkpoint();

  std::uint64_t devices() const;
  std::uint64_t memory_bytes() const;
  std::uint64_t file_bytes() const { return file_bytes_; }

 private:
  struct State {
    std::shared_ptr<const Bytes> bytes;  // null: only in the file
    std::uint64_t offset = 0;            // of its record; meaningless while `fresh`
    std::uint64_t length = 0;
    bool fresh = true;                          // not in the file yet
    std::list<std::uint32_t>::iterator in_use;  // while bytes is set
  };

  struct Record {
    std::uint64_t offset;
    std::uint64_t length;  // of the state
  };

  Status open_file();
  void forget(const State& state);   // its record in the file, for a newer one
  void punch(const Record& record);  // its head stays, so that the records can still be walked
  Status append(std::uint32_t device, State& state);
  // Writes out the longest unused; the `kept` newest stay, though they be over the budget.
  Status make_room(std::uint64_t bytes, std::size_t kept);
  Status write_anew();
  Result<std::shared_ptr<const Bytes>> read(std::uint32_t device, const State& state) const;
  static Result<std::shared_ptr<const Bytes>> read_from(int descriptor, const std::string& path, std::uint32_t device,
                                                        const State& state);
  std::string path() const { return folder_ + "/" + file_; }

  const std::string folder_;
  const std::uint64_t budget_bytes_;
  mutable std::mutex mutex_;
  std::unordered_map<std::uint32_t, State> states_;
  mutable std::list<std::uint32_t> used_;  // what is in memory, the longest unused first
  std::uint64_t memory_bytes_ = 0;
  std::string file_;
  std::string old_file_;  // of the manifest before
  int descriptor_ = -1;
  std::uint64_t file_bytes_ = 0;
  std::uint64_t live_bytes_ = 0;  // of the file: records that count
  std::uint32_t generation_ = 0;
  bool makes_holes_ = true;
  std::uint64_t checkpoint_bytes_ = 0;  // of the file: the newest checkpoint's
  std::vector<Record> old_;             // that the newest checkpoint needs,
  std::vector<Record> older_;           // and that only the one before does
};

}  // namespace gleaner::simulation
