#include "kernels/backends.hpp"
#include "kernels/cpu/cpu.hpp"

namespace gleaner {

const KernelTable& cpu_kernels() {
  static constexpr KernelTable table = {
      .name = "cpu",
      .select = cpu::select,
      .accumulate_and_select = cpu::accumulate_and_select,
      .subtract_and_select = cpu::subtract_and_select,
      .take_out = cpu::take_out,
      .put_back = cpu::put_back,
      .scatter_add = cpu::scatter_add,
      .dense_add = cpu::dense_add,
      .select_integers = cpu::select_integers,
      .apply_patch = cpu::apply_patch,
      .model_hash = cpu::model_hash,
  };
  return table;
}

}  // namespace gleaner
