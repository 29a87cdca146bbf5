// Starts the kernels of a selection.

#include "kernels/cuda/form.cuh"
#include "kernels/cuda/select.cuh"
#include "kernels/cuda/tables.hpp"

namespace gleaner::cuda::GLEANER_EXECUTION {
namespace {

using Code = Launches::Code;
using Stream = Launches::Stream;
using Source = Launches::Source;

Code start_form(Stream stream, unsigned blocks, Form form, const RowTable& rows, const FormArguments& x,
                const SelectionMemory& memory) {
  switch (form) {
    case Form::add:
      return launch("form_and_count<add>", stream, blocks, kThreads, form_and_count<Form::add>, rows, x, memory);
    case Form::subtract:
      return launch("form_and_count<subtract>", stream, blocks, kThreads, form_and_count<Form::subtract>, rows, x,
                    memory);
    case Form::as_it_is: break;
  }
  return launch("form_and_count", stream, blocks, kThreads, form_and_count<Form::as_it_is>, rows, x, memory);
}

Code start_count_integers(Stream stream, unsigned blocks, const RowTable& rows, const std::int64_t* x,
                          const SelectionMemory& memory) {
  return launch("count_integers", stream, blocks, kThreads, count_integers, rows, x, memory);
}

Code start_sum_norms(Stream stream, const RowTable& rows, const SelectionMemory& memory, RowReport* reports) {
  return launch("sum_norms", stream, (rows.rows + kWarps - 1) / kWarps, kThreads, sum_norms, rows, memory, reports);
}

Code start_choose(Stream stream, std::uint32_t round, Source source, const RowTable& rows,
                  const SelectionMemory& memory) {
  const auto kernel = source.floats != nullptr ? choose<FloatKey> : choose<IntegerKey>;
  return launch("choose", stream, rows.rows, kThreads, kernel, rows, memory, round);
}

Code start_keep(Stream stream, unsigned blocks, Source source, const RowTable& rows, const SelectionMemory& memory) {
  if (source.floats != nullptr) {
    return launch("keep", stream, blocks, kThreads, keep<FloatKey>, rows, source.floats, memory);
  }
  return launch("keep<integers>", stream, blocks, kThreads, keep<IntegerKey>, rows, source.integers, memory);
}

Code start_refine(Stream stream, unsigned blocks, Source source, const RowTable& rows, const SelectionMemory& memory) {
  if (source.floats != nullptr) {
    return launch("refine", stream, blocks, kThreads, refine<FloatKey>, rows, source.floats, memory);
  }
  return launch("refine<integers>", stream, blocks, kThreads, refine<IntegerKey>, rows, source.integers, memory);
}

Code start_count(Stream stream, unsigned blocks, Source source, const RowTable& rows, const SelectionMemory& memory) {
  if (source.floats != nullptr) {
    return launch("count", stream, blocks, kThreads, count<FloatKey>, rows, source.floats, memory);
  }
  return launch("count<integers>", stream, blocks, kThreads, count<IntegerKey>, rows, source.integers, memory);
}

Code start_place(Stream stream, Source source, const RowTable& rows, const SelectionMemory& memory,
                 RowReport* reports) {
  const auto kernel = source.floats != nullptr ? place<FloatKey> : place<IntegerKey>;
  return launch("place", stream, rows.rows, kThreads, kernel, rows, memory, reports);
}

Code start_write(Stream stream, unsigned blocks, Source source, const RowTable& rows, const SelectionMemory& memory,
                 std::uint32_t* indices, float* values) {
  if (source.floats != nullptr) {
    return launch("write", stream, blocks, kThreads, write<FloatKey>, rows, source.floats, memory, indices, values);
  }
  return launch("write<integers>", stream, blocks, kThreads, write<IntegerKey>, rows, source.integers, memory, indices,
                nullptr);
}

Code blocks_per_processor(int* blocks) {
#ifdef __CUDACC__
  return static_cast<Code>(
      cudaOccupancyMaxActiveBlocksPerMultiprocessor(blocks, form_and_count<Form::add>, kThreads, 0));
#else
  *blocks = 1;
  return 0;
#endif
}

}  // namespace

void add_selection(Launches& launches) {
  launches.blocks_per_processor = blocks_per_processor;
  launches.form_and_count = start_form;
  launches.count_integers = start_count_integers;
  launches.sum_norms = start_sum_norms;
  launches.choose = start_choose;
  launches.keep = start_keep;
  launches.refine = start_refine;
  launches.count = start_count;
  launches.place = start_place;
  launches.write = start_write;
}

}  // namespace gleaner::cuda::GLEANER_EXECUTION
