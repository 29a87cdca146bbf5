// Starts the kernels of sums, moves and hashes, and holds the whole table.

#include "kernels/cuda/sums.cuh"
#include "kernels/cuda/tables.hpp"

namespace gleaner::cuda::GLEANER_EXECUTION {
namespace {

using Code = Launches::Code;
using Stream = Launches::Stream;

Code start_scatter_add(Stream stream, unsigned blocks, std::int64_t* sum, const UpdateTable& table, double scale) {
  return launch("scatter_add", stream, blocks, kThreads, scatter_add, sum, table, scale);
}

Code start_dense_add(Stream stream, unsigned blocks, std::int64_t* sum, const float* values, std::uint64_t count,
                     double weight, double scale) {
  return launch("dense_add", stream, blocks, kThreads, dense_add, sum, values, count, weight, scale);
}

Code start_move_selected(Stream stream, unsigned blocks, float sign, const RowTable& rows, const RowReport* reports,
                         float* residual, const std::uint32_t* indices, const float* sent) {
  return launch("move_selected", stream, blocks, kThreads, move_selected, sign, rows, reports, residual, indices, sent);
}

Code start_move_out(Stream stream, unsigned blocks, float sign, float* residual, const std::uint32_t* indices,
                    const float* sent, std::uint64_t count) {
  return launch("move_out", stream, blocks, kThreads, move_out, sign, residual, indices, sent, count);
}

Code start_apply_patch(Stream stream, unsigned blocks, float* model, const std::uint32_t* indices, const float* u,
                       std::uint64_t count, std::uint64_t* hash) {
  return launch("apply_patch", stream, blocks, kThreads, apply_patch, model, indices, u, count, hash);
}

Code start_range_hash(Stream stream, unsigned blocks, const float* range, std::uint32_t first, std::uint64_t count,
                      std::uint64_t* hash) {
  return launch("range_hash", stream, blocks, kThreads, range_hash, range, first, count, hash);
}

Code start_gather(Stream stream, unsigned blocks, const float* x, const std::uint32_t* indices, std::uint64_t count,
                  float* values) {
  return launch("gather", stream, blocks, kThreads, gather, x, indices, count, values);
}

}  // namespace

void add_sums(Launches& launches) {
  launches.scatter_add = start_scatter_add;
  launches.dense_add = start_dense_add;
  launches.move_selected = start_move_selected;
  launches.move_out = start_move_out;
  launches.apply_patch = start_apply_patch;
  launches.range_hash = start_range_hash;
  launches.gather = start_gather;
}

const Launches& launches() {
  static const Launches table = [] {
    Launches filled{};
    add_selection(filled);
    add_sums(filled);
    return filled;
  }();
  return table;
}

}  // namespace gleaner::cuda::GLEANER_EXECUTION
