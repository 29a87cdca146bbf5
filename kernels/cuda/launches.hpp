#pragma once
// The kernels as the host starts them: plain pointers into device memory, one function a kernel, CUDA's code back (0:
// started). Both halves of execution.hpp fill this table. C++20: nvcc compiles it too.

#include <cstdint>

namespace gleaner::cuda {

constexpr std::uint32_t kThreads = 256;      // of every block
constexpr std::uint32_t kTile = 4096;        // entries that a block or a warp takes at a time; a block of the norm
constexpr std::uint32_t kFirstBins = 2048;   // of the first digit of a magnitude
constexpr std::uint32_t kBins = 1024;        // of the later ones
constexpr std::uint32_t kFloatRounds = 3;    // 11 + 10 + 10 bits
constexpr std::uint32_t kIntegerRounds = 7;  // 11, then at most 58 in steps of 10
constexpr std::uint32_t kNoIndex = 0xffffffffU;

// Vectors that lie one after another in one buffer, each selected from by itself. A tile belongs to one row.
struct RowTable {
  std::uint32_t rows = 0;
  std::uint32_t tiles = 0;
  const std::uint64_t* first = nullptr;         // [rows] where a row begins in the buffers
  const std::uint32_t* size = nullptr;          // [rows]
  const std::uint32_t* k = nullptr;             // [rows] at most size
  const std::uint32_t* first_tile = nullptr;    // [rows + 1]
  const std::uint32_t* tile_row = nullptr;      // [tiles]
  const std::uint64_t* first_output = nullptr;  // [rows + 1] where its selection goes
  const std::uint64_t* first_kept = nullptr;    // [rows + 1] its share of the candidates' memory
};

// What selecting needs besides: candidates, counts, and how far each row is. A row whose candidates do not fit into
// its share is read again instead.
enum class RowMode : std::uint32_t { nothing, candidates, whole };
struct RowState {
  std::uint64_t low = 0;    // the least magnitude of the digits found so far
  std::uint32_t width = 0;  // the threshold is in [low, low + 2^width)
  std::uint32_t above = 0;  // entries from low + 2^width on: all are selected
  std::uint32_t rank = 0;   // entries of the interval that are selected, too
  RowMode mode = RowMode::nothing;
  std::uint32_t kept = 0;  // of its share of the candidates' memory
  std::uint32_t reserved = 0;
};
struct TileCount {
  std::uint32_t above = 0;
  std::uint32_t equal = 0;
};
struct SelectionMemory {
  std::uint32_t* histograms = nullptr;    // [rows * kFirstBins], zero at the beginning
  RowState* states = nullptr;             // [rows], zero at the beginning
  std::uint32_t* modes = nullptr;         // [2] rows with candidates, rows that are read whole; zero at the beginning
  std::uint32_t* non_finite = nullptr;    // [rows], kNoIndex at the beginning
  double* tile_norms = nullptr;           // [tiles]
  std::uint64_t* tile_first = nullptr;    // [tiles] where a tile's candidates are
  std::uint32_t* tile_kept = nullptr;     // [tiles]
  TileCount* tile_counts = nullptr;       // [tiles]
  std::uint32_t* kept_indices = nullptr;  // [first_kept[rows]]
  void* kept_values = nullptr;            // [first_kept[rows]] float or int64
};

// What a row's selection comes to; in the reports of a batch one a row.
struct RowReport {
  std::uint32_t selected = 0;
  std::uint32_t non_finite = kNoIndex;  // the first one; then nothing is selected
  double squared_norm = 0.0;
  std::uint32_t threshold_bits = 0;  // of the float
  std::uint32_t reserved = 0;
};

// How the entries come about on the way: x itself, target = target + update, target = update - tracked.
enum class Form : std::uint32_t { as_it_is, add, subtract };
struct FormArguments {
  const float* update = nullptr;
  const float* tracked = nullptr;
  float* target = nullptr;
};

// Sorted sparse updates of many devices, one after another: update u has the entries first[u] to first[u + 1].
struct UpdateTable {
  std::uint32_t updates = 0;
  std::uint64_t entries = 0;
  const std::uint64_t* first = nullptr;  // [updates + 1]
  const std::uint32_t* weight = nullptr;
  const std::uint32_t* indices = nullptr;
  const float* values = nullptr;
  const RowReport* reports = nullptr;  // when the updates are a selection's rows: how much of each counts
};

struct Launches {
  using Code = int;
  using Stream = void*;

  // How many blocks of the largest kernel one processor of the device holds at a time.
  Code (*blocks_per_processor)(int* blocks);

  // The entries are formed and their first digits counted, or, of integers, only counted.
  Code (*form_and_count)(Stream, unsigned blocks, Form, const RowTable&, const FormArguments&, const SelectionMemory&);
  Code (*count_integers)(Stream, unsigned blocks, const RowTable&, const std::int64_t* x, const SelectionMemory&);
  Code (*sum_norms)(Stream, const RowTable&, const SelectionMemory&, RowReport*);

  // Then, for floats or integers (null floats: integers): candidates are kept, digit by digit is found, and the
  // selection is counted, placed and written.
  struct Source {
    const float* floats = nullptr;
    const std::int64_t* integers = nullptr;
  };
  Code (*choose)(Stream, std::uint32_t round, Source, const RowTable&, const SelectionMemory&);
  Code (*keep)(Stream, unsigned blocks, Source, const RowTable&, const SelectionMemory&);
  Code (*refine)(Stream, unsigned blocks, Source, const RowTable&, const SelectionMemory&);
  Code (*count)(Stream, unsigned blocks, Source, const RowTable&, const SelectionMemory&);
  Code (*place)(Stream, Source, const RowTable&, const SelectionMemory&, RowReport*);
  Code (*write)(Stream, unsigned blocks, Source, const RowTable&, const SelectionMemory&, std::uint32_t* indices,
                float* values);

  // residual[first[row] + indices[j]] += or -= sent[j] for the selected entries of every row.
  Code (*move_selected)(Stream, unsigned blocks, float sign, const RowTable&, const RowReport*, float* residual,
                        const std::uint32_t* indices, const float* sent);
  // The same in one row: residual[indices[j]].
  Code (*move_out)(Stream, unsigned blocks, float sign, float* residual, const std::uint32_t* indices,
                   const float* sent, std::uint64_t count);

  Code (*scatter_add)(Stream, unsigned blocks, std::int64_t* sum, const UpdateTable&, double scale);
  Code (*dense_add)(Stream, unsigned blocks, std::int64_t* sum, const float* values, std::uint64_t count, double weight,
                    double scale);
  // Both add to *hash.
  Code (*apply_patch)(Stream, unsigned blocks, float* model, const std::uint32_t* indices, const float* u,
                      std::uint64_t count, std::uint64_t* hash);
  Code (*range_hash)(Stream, unsigned blocks, const float* range, std::uint32_t first, std::uint64_t count,
                     std::uint64_t* hash);
  Code (*gather)(Stream, unsigned blocks, const float* x, const std::uint32_t* indices, std::uint64_t count,
                 float* values);
};

}  // namespace gleaner::cuda
