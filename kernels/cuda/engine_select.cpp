// Selections: the layout of the rows, the memory that a selection needs, and the order of its kernels.

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "kernels/cuda/engine.hpp"

namespace gleaner::cuda {
namespace {

// Room for candidates: a threshold's first digit rarely holds more than k entries and an eighth of the row.
std::uint32_t share_of(std::uint32_t size) { return std::min(size, size / 8 + 1024); }

// Arrays of the row table, packed into one upload; the 64-bit ones come first, so that all are aligned.
struct Packed {
  std::vector<std::uint64_t> longs;
  std::vector<std::uint32_t> words;
  std::size_t first_output = 0;
  std::size_t first_kept = 0;
  std::size_t k = 0;
  std::size_t first_tile = 0;
  std::size_t tile_row = 0;
};

}  // namespace

struct Engine::Workspace {
  Buffer<std::byte> zeroed;
  Buffer<std::byte> rest;
  Buffer<std::uint32_t> non_finite;
  SelectionMemory memory;
};

Result<Rows> Engine::rows(std::span<const std::uint32_t> sizes, std::span<const std::uint32_t> k) {
  GLEANER_TRY(usable());
  if (sizes.size() != k.size() || sizes.size() >= kNoIndex) {
    return fail(ErrorCode::fatal, fmt::format("GPU: {} rows with {} counts", sizes.size(), k.size()));
  }
  const std::size_t count = sizes.size();
  Rows rows;
  Packed packed;
  std::vector<std::uint64_t> first_kept(count + 1);
  rows.first_output_.resize(count + 1);
  packed.longs.resize(count);
  packed.words.assign(sizes.begin(), sizes.end());
  std::vector<std::uint32_t> first_tile(count + 1);
  std::uint64_t tiles = 0;
  for (std::size_t row = 0; row < count; ++row) {
    if (sizes[row] == kNoIndex) return fail(ErrorCode::fatal, fmt::format("GPU: row {} is too long", row));
    packed.longs[row] = rows.entries_;
    rows.entries_ += sizes[row];
    rows.longest_ = std::max(rows.longest_, sizes[row]);
    rows.first_output_[row + 1] = rows.first_output_[row] + std::min(sizes[row], k[row]);
    first_kept[row + 1] = first_kept[row] + share_of(sizes[row]);
    first_tile[row] = static_cast<std::uint32_t>(tiles);
    tiles += (std::uint64_t{sizes[row]} + kTile - 1) / kTile;
    if (tiles >= kNoIndex) return fail(ErrorCode::fatal, "GPU: the rows have more entries than one batch may");
  }
  first_tile[count] = static_cast<std::uint32_t>(tiles);
  rows.outputs_ = rows.first_output_[count];
  rows.kept_ = first_kept[count];

  packed.first_output = packed.longs.size();
  packed.longs.insert(packed.longs.end(), rows.first_output_.begin(), rows.first_output_.end());
  packed.first_kept = packed.longs.size();
  packed.longs.insert(packed.longs.end(), first_kept.begin(), first_kept.end());
  packed.k = packed.words.size();
  for (std::size_t row = 0; row < count; ++row) packed.words.push_back(std::min(k[row], sizes[row]));
  packed.first_tile = packed.words.size();
  packed.words.insert(packed.words.end(), first_tile.begin(), first_tile.end());
  packed.tile_row = packed.words.size();
  for (std::uint32_t row = 0; row < count; ++row) {
    packed.words.insert(packed.words.end(), first_tile[row + 1] - first_tile[row], row);
  }

  const std::size_t long_bytes = packed.longs.size() * sizeof(std::uint64_t);
  std::vector<std::byte> bytes(long_bytes + packed.words.size() * sizeof(std::uint32_t));
  std::memcpy(bytes.data(), packed.longs.data(), long_bytes);
  if (!packed.words.empty()) {
    std::memcpy(bytes.data() + long_bytes, packed.words.data(), bytes.size() - long_bytes);
  }
  GLEANER_ASSIGN(rows.memory_, uploaded(std::span<const std::byte>(bytes)));
  const auto* longs = reinterpret_cast<const std::uint64_t*>(rows.memory_.data());
  const auto* words = reinterpret_cast<const std::uint32_t*>(rows.memory_.data() + long_bytes);
  rows.table_ = {.rows = static_cast<std::uint32_t>(count),
                 .tiles = static_cast<std::uint32_t>(tiles),
                 .first = longs,
                 .size = words,
                 .k = words + packed.k,
                 .first_tile = words + packed.first_tile,
                 .tile_row = words + packed.tile_row,
                 .first_output = longs + packed.first_output,
                 .first_kept = longs + packed.first_kept};
  return rows;
}

Result<Engine::Workspace> Engine::prepare(const Rows& rows, std::size_t value_bytes, DeviceSelection& out) {
  if (out.indices.size() < rows.outputs()) {
    out.indices = {};
    GLEANER_ASSIGN(out.indices, allocate<std::uint32_t>(rows.outputs()));
  }
  if (out.values.size() < rows.outputs()) {
    out.values = {};
    GLEANER_ASSIGN(out.values, allocate<float>(rows.outputs()));
  }
  if (out.reports.size() < rows.count()) {
    out.reports = {};
    GLEANER_ASSIGN(out.reports, allocate<RowReport>(rows.count()));
  }
  Workspace workspace;
  SelectionMemory& memory = workspace.memory;
  const std::size_t row_count = rows.count();
  const std::size_t tiles = rows.table_.tiles;

  // In the order of their alignment.
  const std::size_t state_bytes = row_count * sizeof(RowState);
  const std::size_t histogram_bytes = row_count * kFirstBins * sizeof(std::uint32_t);
  GLEANER_ASSIGN(workspace.zeroed, allocate<std::byte>(state_bytes + histogram_bytes + 2 * sizeof(std::uint32_t)));
  std::byte* at = workspace.zeroed.data();
  memory.states = reinterpret_cast<RowState*>(at);
  memory.histograms = reinterpret_cast<std::uint32_t*>(at + state_bytes);
  memory.modes = reinterpret_cast<std::uint32_t*>(at + state_bytes + histogram_bytes);
  GLEANER_TRY(fill_with_zeros(workspace.zeroed));
  GLEANER_ASSIGN(workspace.non_finite, allocate<std::uint32_t>(row_count));
  memory.non_finite = workspace.non_finite.data();
  GLEANER_TRY(fill_bytes(memory.non_finite, 0xff, row_count * sizeof(std::uint32_t)));

  const std::size_t tile_bytes = sizeof(double) + sizeof(std::uint64_t) + sizeof(TileCount) + sizeof(std::uint32_t);
  GLEANER_ASSIGN(workspace.rest,
                 allocate<std::byte>(rows.kept_ * (value_bytes + sizeof(std::uint32_t)) + tiles * tile_bytes));
  at = workspace.rest.data();
  const auto take = [&at](std::size_t bytes) { return std::exchange(at, at + bytes); };
  memory.tile_norms = reinterpret_cast<double*>(take(tiles * sizeof(double)));
  memory.tile_first = reinterpret_cast<std::uint64_t*>(take(tiles * sizeof(std::uint64_t)));
  memory.tile_counts = reinterpret_cast<TileCount*>(take(tiles * sizeof(TileCount)));
  memory.kept_values = take(rows.kept_ * value_bytes);
  memory.kept_indices = reinterpret_cast<std::uint32_t*>(take(rows.kept_ * sizeof(std::uint32_t)));
  memory.tile_kept = reinterpret_cast<std::uint32_t*>(take(tiles * sizeof(std::uint32_t)));
  return workspace;
}

std::uint64_t Engine::selection_bytes(std::uint64_t rows, std::uint32_t size, std::uint32_t k) {
  const std::uint64_t tiles = rows * ((std::uint64_t{size} + kTile - 1) / kTile);
  const std::uint64_t outputs = rows * std::min(size, k);
  const std::uint64_t tables = 3 * (rows + 1) * sizeof(std::uint64_t) + (3 * rows + 1 + tiles) * sizeof(std::uint32_t);
  const std::uint64_t zeroed =
      rows * (sizeof(RowState) + kFirstBins * sizeof(std::uint32_t)) + 2 * sizeof(std::uint32_t);
  const std::uint64_t rest =
      rows * share_of(size) * (sizeof(float) + sizeof(std::uint32_t)) +
      tiles * (sizeof(double) + sizeof(std::uint64_t) + sizeof(TileCount) + sizeof(std::uint32_t));
  std::uint64_t sum = 0;
  for (const std::uint64_t bytes : {tables, outputs * sizeof(std::uint32_t), outputs * sizeof(float),
                                    rows * sizeof(RowReport), zeroed, rows * sizeof(std::uint32_t), rest}) {
    sum += Pool::rounded(bytes);
  }
  return sum;
}

// The memory of a selection goes back to the pool while its kernels are still queued: whoever gets it next is behind
// them on the same stream, and the side stream is waited for.
Status Engine::select_formed(const Rows& rows, Form form, const FormArguments& x, DeviceSelection& out) {
  if (rows.count() == 0) return {};
  GLEANER_ASSIGN(const Workspace workspace, prepare(rows, sizeof(float), out));
  const Launches& launches = driver_.launches();
  if (rows.table_.tiles > 0) {
    GLEANER_TRY(done(launches.form_and_count(main_.get(), blocks_for_tiles(rows.table_.tiles), form, rows.table_, x,
                                             workspace.memory),
                     "forming the entries"));
  }
  GLEANER_TRY(done(driver_.record(formed_.get(), main_.get()), "marking the formed entries"));
  GLEANER_TRY(done(driver_.let_wait(side_.get(), formed_.get()), "waiting for the formed entries"));
  GLEANER_TRY(
      done(launches.sum_norms(side_.get(), rows.table_, workspace.memory, out.reports.data()), "summing the norms"));
  GLEANER_TRY(done(driver_.record(summed_.get(), side_.get()), "marking the sums"));
  const Launches::Source source = {.floats = form == Form::as_it_is ? x.update : x.target};
  const auto status = find_and_write(rows, source, kFloatRounds, workspace, out);
  GLEANER_TRY(done(driver_.let_wait(main_.get(), summed_.get()), "waiting for the sums"));
  return status;
}

Status Engine::find_and_write(const Rows& rows, Launches::Source source, std::uint32_t rounds,
                              const Workspace& workspace, DeviceSelection& out) {
  const Launches& launches = driver_.launches();
  const RowTable& table = rows.table_;
  const SelectionMemory& memory = workspace.memory;
  const unsigned blocks = blocks_for_tiles(table.tiles);
  const unsigned warp_blocks = blocks_for(std::uint64_t{table.tiles} * 32);
  if (table.tiles > 0) {
    GLEANER_TRY(done(launches.choose(main_.get(), 0, source, table, memory), "choosing the first digits"));
    GLEANER_TRY(done(launches.keep(main_.get(), blocks, source, table, memory), "keeping candidates"));
    for (std::uint32_t round = 1; round < rounds; ++round) {
      GLEANER_TRY(done(launches.refine(main_.get(), blocks, source, table, memory), "counting digits"));
      GLEANER_TRY(done(launches.choose(main_.get(), round, source, table, memory), "choosing a digit"));
    }
    GLEANER_TRY(done(launches.count(main_.get(), warp_blocks, source, table, memory), "counting what is selected"));
  }
  GLEANER_TRY(done(launches.place(main_.get(), source, table, memory, out.reports.data()), "placing the selection"));
  if (rows.outputs() == 0) return {};
  return done(launches.write(main_.get(), warp_blocks, source, table, memory, out.indices.data(), out.values.data()),
              "writing the selection");
}

Status Engine::select(const Rows& rows, const Buffer<float>& x, DeviceSelection& out) {
  GLEANER_TRY(usable());
  GLEANER_TRY(fits(rows.entries(), x.size()));
  return select_formed(rows, Form::as_it_is, {.update = x.data()}, out);
}

Status Engine::accumulate_and_select(const Rows& rows, const Buffer<float>& update, const Buffer<float>& residual,
                                     DeviceSelection& out) {
  GLEANER_TRY(usable());
  GLEANER_TRY(fits(rows.entries(), std::min(update.size(), residual.size())));
  return select_formed(rows, Form::add, {.update = update.data(), .target = residual.data()}, out);
}

Status Engine::subtract_and_select(const Rows& rows, const Buffer<float>& update, const Buffer<float>& tracked,
                                   const Buffer<float>& candidate, DeviceSelection& out) {
  GLEANER_TRY(usable());
  GLEANER_TRY(fits(rows.entries(), std::min({update.size(), tracked.size(), candidate.size()})));
  return select_formed(rows, Form::subtract,
                       {.update = update.data(), .tracked = tracked.data(), .target = candidate.data()}, out);
}

Status Engine::select_integers(const Rows& rows, const Buffer<std::int64_t>& x, DeviceSelection& out) {
  GLEANER_TRY(usable());
  GLEANER_TRY(fits(rows.entries(), x.size()));
  if (rows.count() == 0) return {};
  GLEANER_ASSIGN(const Workspace workspace, prepare(rows, sizeof(std::int64_t), out));
  if (rows.table_.tiles > 0) {
    GLEANER_TRY(done(driver_.launches().count_integers(main_.get(), blocks_for_tiles(rows.table_.tiles), rows.table_,
                                                       x.data(), workspace.memory),
                     "counting the first digits"));
  }
  return find_and_write(rows, {.integers = x.data()}, kIntegerRounds, workspace, out);
}

}  // namespace gleaner::cuda
