#include "kernels/backends.hpp"
#include "kernels/cpu/cpu.hpp"

namespace gleaner {

const KernelTable& cpu_kernels() {
  static constexpr KernelTable table = {
      .name = "cpu",
      .select = cpu::select,
      .select_segments = cpu::select_segments,
      .accumulate_and_select = cpu::accumulate_and_select,
      .subtract_and_select = cpu::subtract_and_select,
      .take_out = cpu::take_out,
      .put_back = cpu::put_back,
      .gather = cpu::gather,
      .scatter_add = cpu::scatter_add,
      .dense_add = cpu::dense_add,
      .scatter_add_many = cpu::scatter_add_many,
      .select_integers = cpu::select_integers,
      .apply_patch = cpu::apply_patch,
      .model_hash = cpu::model_hash,
      .range_hash = cpu::range_hash,
  };
  return table;
}

}  // namespace gleaner
