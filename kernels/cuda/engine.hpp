#pragma once
// Selections, sums and patches on buffers that stay on the GPU: what a simulator works with, and what the kernel table
// (host_table.hpp) is made of. Calls return when their work is queued on the engine's stream and read what earlier
// calls leave; download() and wait() return when it is done. A batch is one call, and costs the same launches however
// many rows it has. The meaning and the bits are those of kernels/kernels.hpp.
//
// Errors: out of memory leaves the engine usable. Any other failure of the device ends it: every later call returns
// that first error. Not thread-safe. The driver outlives the engine; buffers may outlive it.

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "common/error.hpp"
#include "kernels/cuda/pool.hpp"
#include "kernels/cuda/stream.hpp"

namespace gleaner::cuda {

struct EngineOptions {
  std::size_t budget_bytes = 0;                       // of device memory
  std::size_t staging_bytes = std::size_t{8} << 20U;  // each of two pinned halves
};

// Vectors that lie one after another in one buffer, and how many entries of each are wanted. Made once, used often.
class Rows {
 public:
  std::uint32_t count() const { return table_.rows; }
  std::uint64_t entries() const { return entries_; }  // of all rows
  std::uint64_t outputs() const { return outputs_; }  // of all rows' selections at most: the sum of min(k, size)
  std::uint64_t first_output(std::uint32_t row) const { return first_output_[row]; }

 private:
  friend class Engine;
  RowTable table_;
  std::uint64_t entries_ = 0;
  std::uint64_t outputs_ = 0;
  std::uint64_t kept_ = 0;
  std::uint32_t longest_ = 0;
  std::vector<std::uint64_t> first_output_;
  Buffer<std::byte> memory_;
};

// Row r's selection is indices and values [rows.first_output(r), + reports[r].selected); indices count within the row.
// Made by the first selection that it is given to and used again by the next.
struct DeviceSelection {
  Buffer<std::uint32_t> indices;
  Buffer<float> values;       // untouched by select_integers
  Buffer<RowReport> reports;  // of integers without norm and threshold
};

// Updates of many devices, one after another.
struct HostUpdates {
  std::span<const std::uint64_t> first;  // one more than there are updates
  std::span<const std::uint32_t> weights;
  std::span<const std::uint32_t> indices;  // below the size of the sum: checked before
  std::span<const float> values;
};
class Updates {
 private:
  friend class Engine;
  UpdateTable table_;
  Buffer<std::uint64_t> first_;
  Buffer<std::uint32_t> weights_;
  Buffer<std::uint32_t> indices_;
  Buffer<float> values_;
};

class Engine {
 public:
  static Result<std::unique_ptr<Engine>> create(Driver& driver, const EngineOptions& options);
  ~Engine();

  template <class T>
  Result<Buffer<T>> allocate(std::size_t size) {
    if (size > SIZE_MAX / sizeof(T))
      return fail(ErrorCode::fatal, "GPU memory: a request of more bytes than there are");
    GLEANER_ASSIGN(Memory memory, allocate_bytes(size * sizeof(T)));
    return Buffer<T>(std::move(memory), size);
  }
  template <class T>
  Status upload(std::span<const T> from, const Buffer<T>& to, std::size_t begin = 0) {
    GLEANER_TRY(fits(begin, to.size()));
    GLEANER_TRY(fits(from.size(), to.size() - begin));
    return upload_bytes(from.data(), to.data() + begin, from.size_bytes());
  }
  template <class T>
  Result<Buffer<T>> uploaded(std::span<const T> from) {
    GLEANER_ASSIGN(Buffer<T> to, allocate<T>(from.size()));
    GLEANER_TRY(upload(from, to));
    return to;
  }
  // The first to.size() entries.
  template <class T>
  Status download(const Buffer<T>& from, std::span<T> to, std::size_t begin = 0) {
    GLEANER_TRY(fits(begin, from.size()));
    GLEANER_TRY(fits(to.size(), from.size() - begin));
    return download_bytes(from.data() + begin, to.data(), to.size_bytes());
  }
  template <class T>
  Status fill_with_zeros(const Buffer<T>& buffer) {
    return fill_bytes(buffer.data(), 0, buffer.size() * sizeof(T));
  }
  Status wait();
  // For whoever queues kernels of their own on stream(): what the driver said to it. A failure ends the engine.
  Status done(Driver::Code code, std::string_view doing);
  // What `enqueue` starts on stream(), as a graph for Driver::launch_graph(). Its Error, or the device's.
  Result<Handle> capture(const std::function<Status()>& enqueue);
  bool lost() const { return lost_.has_value(); }

  // sizes and k have one length; k above a row's size means all of it.
  Result<Rows> rows(std::span<const std::uint32_t> sizes, std::span<const std::uint32_t> k);

  // Of device memory, for so many equal rows of floats: the rows themselves, what selecting needs, and the selection.
  static std::uint64_t selection_bytes(std::uint64_t rows, std::uint32_t size, std::uint32_t k);

  Status select(const Rows& rows, const Buffer<float>& x, DeviceSelection& out);
  Status accumulate_and_select(const Rows& rows, const Buffer<float>& update, const Buffer<float>& residual,
                               DeviceSelection& out);
  Status subtract_and_select(const Rows& rows, const Buffer<float>& update, const Buffer<float>& tracked,
                             const Buffer<float>& candidate, DeviceSelection& out);
  Status select_integers(const Rows& rows, const Buffer<std::int64_t>& x, DeviceSelection& out);

  // Of what was selected: sent lies as out.values does.
  Status take_out(const Rows& rows, const DeviceSelection& selection, const Buffer<float>& sent,
                  const Buffer<float>& residual);
  Status put_back(const Rows& rows, const DeviceSelection& selection, const Buffer<float>& sent,
                  const Buffer<float>& residual);
  // Of one vector; the indices differ from each other.
  Status take_out(const Buffer<std::uint32_t>& indices, const Buffer<float>& sent, const Buffer<float>& residual);
  Status put_back(const Buffer<std::uint32_t>& indices, const Buffer<float>& sent, const Buffer<float>& residual);

  Result<Updates> updates(const HostUpdates& updates);
  Status scatter_add(const Updates& updates, int grid_exponent, const Buffer<std::int64_t>& sum);
  // The selection's rows as updates of these weights, with values as out.values lies; sum has an entry for each of the
  // longest row.
  Status scatter_selected(const Rows& rows, const DeviceSelection& selection, const Buffer<float>& values,
                          const Buffer<std::uint32_t>& weights, int grid_exponent, const Buffer<std::int64_t>& sum);
  Status dense_add(const Buffer<float>& values, std::uint32_t weight, int grid_exponent,
                   const Buffer<std::int64_t>& sum);

  // The indices differ from each other. hash has one entry, which the change is added to.
  Status apply_patch(const Buffer<float>& model, const Buffer<std::uint32_t>& indices, const Buffer<float>& u,
                     const Buffer<std::uint64_t>& hash);
  // The share of the coordinates first, first + 1, ...; replaces *hash.
  Status range_hash(const Buffer<float>& range, std::uint32_t first, const Buffer<std::uint64_t>& hash);
  Status gather(const Buffer<float>& x, const Buffer<std::uint32_t>& indices, const Buffer<float>& values);

  const Pool& pool() const { return *pool_; }
  Driver& driver() { return driver_; }
  Driver::Stream stream() const { return main_.get(); }

 private:
  struct Workspace;
  Engine(Driver& driver, const EngineOptions& options);
  Status usable() const;
  Status fits(std::size_t part, std::size_t whole) const;
  Result<Memory> allocate_bytes(std::size_t bytes);
  Status upload_bytes(const void* from, void* to, std::size_t bytes);
  Status download_bytes(const void* from, void* to, std::size_t bytes);
  Status fill_bytes(void* memory, std::uint8_t byte, std::size_t bytes);
  Status select_formed(const Rows& rows, Form form, const FormArguments& x, DeviceSelection& out);
  Status find_and_write(const Rows& rows, Launches::Source source, std::uint32_t rounds, const Workspace& workspace,
                        DeviceSelection& out);
  Result<Workspace> prepare(const Rows& rows, std::size_t value_bytes, DeviceSelection& out);
  Status move_selected(const Rows& rows, const DeviceSelection& selection, const Buffer<float>& sent,
                       const Buffer<float>& residual, float sign);
  Status move_out(const Buffer<std::uint32_t>& indices, const Buffer<float>& sent, const Buffer<float>& residual,
                  float sign);
  unsigned blocks_for(std::uint64_t threads) const;
  unsigned blocks_for_tiles(std::uint32_t tiles) const;

  Driver& driver_;
  std::shared_ptr<Pool> pool_;
  std::optional<Stage> stage_;
  Handle main_;
  Handle side_;  // sums norms while the rest of a selection goes on
  Handle formed_;
  Handle summed_;
  std::optional<Error> lost_;
};

}  // namespace gleaner::cuda
